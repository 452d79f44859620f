//! Filter for pods whose containers are hard to place, beside filter for ordinary ones.

use anyhow::Result;

use super::verb::Verb;
use crate::client::{Connection, Request};
use crate::lab::{Cluster, Lab};
use crate::measure::in_turns;
use crate::objects::{self, ASKED_GIB};
use crate::report::{Limit, Row};

/// So many different pods take turns that the cached verdict of each is evicted before its next turn.
const DIFFERENT: u64 = 32;
/// So few different pods take turns that their verdicts stay cached.
const FEW: u64 = 4;
/// The most that a pod may cost, as a multiple of an ordinary one.
const MOST_TIMES: f64 = 10.0;

pub(super) fn run(lab: &mut Lab) -> Result<Vec<Row>> {
    let cluster = lab.cluster()?;
    let names = objects::node_names(objects::NODES);
    let hostile = |seed: u64| objects::hostile_body(seed, &names);
    let new = |number: u64| objects::share_body(7_168 + number * 96, &names);
    let known = |gib: &u64| objects::scheduler_body(*gib, &names);
    let all_new = compared(
        cluster,
        (0..DIFFERENT).map(hostile).collect::<Result<_>>()?,
        (0..DIFFERENT).map(new).collect::<Result<_>>()?,
    )?;
    let all_known = compared(
        cluster,
        (0..FEW).map(hostile).collect::<Result<_>>()?,
        ASKED_GIB.iter().map(known).collect::<Result<_>>()?,
    )?;
    let row = |name, (value, floor), note: &str| {
        Row::time(name, value, floor)
            .limit(Limit::RatioAtMost(MOST_TIMES))
            .note(format!("{note}; the floor is filter of ordinary pods"))
    };
    Ok(vec![
        row(
            "filter with hostile pods, none like another",
            all_new,
            "32 pods in turn",
        ),
        row(
            "filter with hostile pods, the same again",
            all_known,
            "4 pods in turn",
        ),
    ])
}

fn compared(
    cluster: &Cluster,
    hostile: Vec<Vec<u8>>,
    ordinary: Vec<Vec<u8>>,
) -> Result<(std::time::Duration, std::time::Duration)> {
    let requests = |bodies: Vec<Vec<u8>>| -> Vec<Request> {
        bodies
            .iter()
            .map(|body| Verb::Filter.request(body))
            .collect()
    };
    let (hostile, ordinary) = (requests(hostile), requests(ordinary));
    let mut one = Connection::open(cluster.extender)?;
    let mut other = Connection::open(cluster.extender)?;
    in_turns(one.one_by_one(&hostile), other.one_by_one(&ordinary))
}
