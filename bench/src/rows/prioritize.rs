//! Prioritize over HTTP, beside decoding the same body and encoding an answer of the same size.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Bench;
use crate::client::{Connection, Request};
use crate::floor;
use crate::lab::{Cluster, Lab};
use crate::measure::in_turns;
use crate::objects::{self, ASKED_GIB};
use crate::report::{Limit, PROFILE, Row};

pub(crate) const BENCH: Bench = Bench {
    name: "prioritize",
    about: "prioritize of 5,000 and 500 names, beside its floor",
    run,
};

fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    [
        ("prioritize, 5,000 names", objects::NODES),
        ("prioritize, 500 names", 500),
    ]
    .into_iter()
    .map(|(name, count)| {
        let (value, floor) = measure(cluster, count)?;
        Ok(Row::time(name, value, floor)
            .limit(Limit::RatioAtMost(2.0))
            .excuse(PROFILE))
    })
    .collect()
}

fn measure(cluster: &Cluster, count: usize) -> Result<(Duration, Duration)> {
    let body = objects::scheduler_body(ASKED_GIB, &objects::node_names(count))?;
    let request = Request::post("/gpushare-scheduler/prioritize", "", &body);
    let mut extender = Connection::open(cluster.extender)?;
    let answer = extender.send(&request)?.to_vec();
    let scores: Vec<Value> = serde_json::from_slice(&answer).context("the answer of prioritize")?;
    let headers = format!("{}: {}\r\n", floor::COUNT, scores.len());
    let floor_request = Request::post("/prioritize", &headers, &body);
    let mut floor = Connection::open(cluster.floor)?;
    let size = floor.send(&floor_request)?.len();
    ensure!(
        size.abs_diff(answer.len()) * 100 < answer.len().max(2_000),
        "the floor answers {size} bytes, the extender {}",
        answer.len()
    );
    in_turns(
        || extender.send(&request).map(drop),
        || floor.send(&floor_request).map(drop),
    )
}
