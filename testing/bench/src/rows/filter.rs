//! Filter over HTTP, beside decoding the same body and encoding an answer of the same size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::bind::{self, IN_FLIGHT};
use super::verb::Verb;
use crate::client::{Connection, Request};
use crate::helper;
use crate::lab::Lab;
use crate::measure::{median, time};
use crate::objects::{self, ASKED_GIB, TOO_MUCH_GIB};
use crate::report::{Limit, PROFILE, Row};

/// Turns of filter alone and filter beside binds, and how long each is.
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(1);

pub(super) fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    [
        ("filter, 5,000 names", objects::NODES, &ASKED_GIB[..]),
        ("filter, 500 names", 500, &ASKED_GIB[..]),
        (
            "filter, 5,000 names, none fits",
            objects::NODES,
            &[TOO_MUCH_GIB][..],
        ),
        ("filter, 500 names, none fits", 500, &[TOO_MUCH_GIB][..]),
    ]
    .into_iter()
    .map(|(name, count, sizes)| {
        let measured = Verb::Filter.measure(cluster, count, sizes)?;
        Ok(Row::time(name, measured.value, measured.floor)
            .limit(Limit::RatioAtMost(2.0))
            .excuse(PROFILE)
            .note(format!("the answer has {} bytes", measured.answer_bytes)))
    })
    .collect()
}

pub(super) fn run_during_binds(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    let names = objects::node_names(objects::NODES);
    let bodies = ASKED_GIB.map(|gib| objects::scheduler_body(gib, &names));
    let bodies = bodies.into_iter().collect::<Result<Vec<_>>>()?;
    let requests: Vec<Request> = bodies
        .iter()
        .map(|body| Verb::Filter.request(body))
        .collect();
    let mut next = requests.iter().cycle();
    let mut extender = Connection::open(cluster.extender)?;
    let mut send = || extender.send(next.next().context("no request")?).map(drop);
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
