//! Filter over HTTP, beside decoding the same body and encoding an answer of the same size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::Bench;
use super::bind::{self, IN_FLIGHT};
use crate::client::{Connection, Request};
use crate::lab::{Cluster, Lab};
use crate::measure::{in_turns, median, time};
use crate::objects::{self, ASKED_GIB, TOO_MUCH_GIB};
use crate::report::{Limit, PROFILE, Row};
use crate::{floor, helper};

pub(super) const PATH: &str = "/gpushare-scheduler/filter";
/// Turns of filter alone and filter beside binds, and how long each is.
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(1);

pub(crate) const BENCH: Bench = Bench {
    name: "filter",
    about: "filter of 5,000 and 500 names, some or all refused, beside its floor",
    run,
};

pub(crate) const DURING_BINDS: Bench = Bench {
    name: "filter during binds",
    about: "filter of 5,000 names alone and while 8 binds are in flight, in turns",
    run: run_during_binds,
};

/// The parts of the answer that tell its shape.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    node_names: Vec<String>,
    failed_and_unresolvable_nodes: serde_json::Map<String, Value>,
}

fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    [
        (
            "filter, 5,000 names, 30 % refused",
            objects::NODES,
            ASKED_GIB,
        ),
        (
            "filter, 5,000 names, all refused",
            objects::NODES,
            TOO_MUCH_GIB,
        ),
        ("filter, 500 names, 30 % refused", 500, ASKED_GIB),
        ("filter, 500 names, all refused", 500, TOO_MUCH_GIB),
    ]
    .into_iter()
    .map(|(name, count, gib)| {
        let (value, floor, size) = measure(cluster, count, gib)?;
        Ok(Row::time(name, value, floor)
            .limit(Limit::RatioAtMost(2.0))
            .excuse(PROFILE)
            .note(format!("the answer has {} KB", size / 1000)))
    })
    .collect()
}

fn measure(cluster: &Cluster, count: usize, gib: u64) -> Result<(Duration, Duration, usize)> {
    let body = objects::scheduler_body(gib, &objects::node_names(count))?;
    let request = Request::post(PATH, "", &body);
    let mut extender = Connection::open(cluster.extender)?;
    let answer = extender.send(&request)?.to_vec();
    let shape: Answer = serde_json::from_slice(&answer).context("the answer of filter")?;
    let refused = shape.failed_and_unresolvable_nodes.len();
    ensure!(
        shape.node_names.len() + refused == count,
        "the answer of filter does not name every node"
    );
    let refusals = shape.failed_and_unresolvable_nodes.values();
    let reasons: usize = refusals.filter_map(Value::as_str).map(str::len).sum();
    let headers = format!(
        "{}: {refused}\r\n{}: {}\r\n",
        floor::COUNT,
        floor::REASON,
        reasons / refused.max(1),
    );
    let floor_request = Request::post("/filter", &headers, &body);
    let mut floor = Connection::open(cluster.floor)?;
    let size = floor.send(&floor_request)?.len();
    ensure!(
        size.abs_diff(answer.len()) * 100 < answer.len(),
        "the floor answers {size} bytes, the extender {}",
        answer.len()
    );
    let (value, least) = in_turns(
        || extender.send(&request).map(drop),
        || floor.send(&floor_request).map(drop),
    )?;
    Ok((value, least, answer.len()))
}

fn run_during_binds(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    let body = objects::scheduler_body(ASKED_GIB, &objects::node_names(objects::NODES))?;
    let request = Request::post(PATH, "", &body);
    let mut extender = Connection::open(cluster.extender)?;
    let mut send = || extender.send(&request).map(drop);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut bound = 0;
    for _ in 0..TURNS {
        alone.extend(for_a_turn(&mut send)?);
        let over = AtomicBool::new(false);
        let (times, binds) = std::thread::scope(|scope| {
            let binds = scope.spawn(|| {
                let until = || over.load(Ordering::Relaxed);
                helper::runtime()?.block_on(bind::through_extender(cluster, until))
            });
            let times = for_a_turn(&mut send);
            over.store(true, Ordering::Relaxed);
            let binds = binds
                .join()
                .map_err(|_| anyhow::anyhow!("the binds panicked"));
            (times, binds)
        });
        beside.extend(times?);
        bound += binds??;
    }
    let per_second = bound as f64 / (TURN * TURNS.try_into()?).as_secs_f64();
    Ok(vec![
        Row::time("filter, 5,000 names, during 8 binds", median(beside)?, median(alone)?)
            .limit(Limit::RatioAtMost(1.5))
            .note(format!(
                "{IN_FLIGHT} binds in flight all the time, {per_second:.0} binds/s; the floor is filter alone"
            )),
    ])
}

fn for_a_turn(work: &mut impl FnMut() -> Result<()>) -> Result<Vec<Duration>> {
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < TURN {
        times.push(time(work)?);
    }
    Ok(times)
}
