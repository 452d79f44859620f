//! Compares a verb of the extender with its floor: the same bodies to both, in turns.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client::{Connection, Request};
use crate::floor;
use crate::lab::Cluster;
use crate::measure::in_turns;
use crate::objects;

/// A verb that kube-scheduler calls with a pod and node names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Filter,
    Prioritize,
}

/// What was measured of a verb.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) value: Duration,
    pub(super) floor: Duration,
    pub(super) answer_bytes: usize,
}

/// The fields of an answer that determine its size.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Filtered {
    node_names: Vec<String>,
    failed_and_unresolvable_nodes: Map<String, Value>,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
        }
    }

    pub(super) fn request(self, body: &[u8]) -> Request {
        Request::post(&format!("/gpushare-scheduler/{}", self.name()), "", body)
    }

    /// The request that makes the floor give an answer of the same size.
    fn floor_request(self, body: &[u8], answer: &[u8]) -> Result<Request> {
        let headers = match self {
            Self::Filter => {
                let answer: Filtered = serde_json::from_slice(answer).context("filter's answer")?;
                let refused = &answer.failed_and_unresolvable_nodes;
                let reasons = refused.values().filter_map(Value::as_str);
                let reasons: usize = reasons.map(str::len).sum();
                let (named, refused) = (answer.node_names.len(), refused.len());
                ensure!(named + refused > 0, "filter neither offers nor refuses");
                format!(
                    "{}: {named}\r\n{}: {refused}\r\n{}: {}\r\n",
                    floor::NAMED,
                    floor::REFUSED,
                    floor::REASON,
                    reasons / refused.max(1),
                )
            }
            Self::Prioritize => {
                let scores: Vec<Value> = serde_json::from_slice(answer)?;
                format!("{}: {}\r\n", floor::NAMED, scores.len())
            }
        };
        Ok(Request::post(&format!("/{}", self.name()), &headers, body))
    }

    /// Asks about this many nodes for pods of these sizes, one after the other.
    pub(super) fn measure(
        self,
        cluster: &Cluster,
        names: usize,
        sizes: &[u64],
    ) -> Result<Measured> {
        let mut extender = Connection::open(cluster.extender)?;
        let mut floor = Connection::open(cluster.floor)?;
        let names = objects::node_names(names);
        let (mut requests, mut floor_requests) = (Vec::new(), Vec::new());
        let mut answer_bytes = 0;
        for gib in sizes {
            let body = objects::scheduler_body(*gib, &names)?;
            let request = self.request(&body);
            let answer = extender.send(&request)?;
            let floor_request = self.floor_request(&body, answer)?;
            answer_bytes = answer.len();
            let length = floor.send(&floor_request)?.len();
            ensure!(
                length.abs_diff(answer_bytes) * 50 <= answer_bytes.max(1_000),
                "the floor answers {length} bytes, the extender {answer_bytes}"
            );
            requests.push(request);
            floor_requests.push(floor_request);
        }
        let (value, floor) = in_turns(
            extender.one_by_one(&requests),
            floor.one_by_one(&floor_requests),
        )?;
        Ok(Measured {
            value,
            floor,
            answer_bytes,
        })
    }
}
