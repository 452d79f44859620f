mod binds;
mod lessons;
mod watches;

use std::sync::Barrier;

use gpushare_core::gpu::{self, AliyunUnit, MEMORY};
use gpushare_core::ledger::BookingState;
use gpushare_core::names;
use gpushare_kube::bind::Outcome;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_packing::Policy;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::*;
use gpushare_kube::PodRef;

const CARD: &str = "GPU-a";
pub(super) const NODE: &str = "n1";
const GIB: u64 = 1024;

/// A state that knows one node with cards of the given GiB, and no pods.
pub(super) fn state(cards: &[(&str, u64)]) -> Books {
    let mut state = Books::new(gpu::classes(), Policy::default(), Bells::default());
    state.replace_nodes(vec![node(NODE, cards)]);
    state.replace_pods(Vec::new(), Vec::new());
    state
}

pub(super) fn node(name: &str, cards: &[(&str, u64)]) -> NodeFacts {
    let cards = cards.iter().zip(0..).map(|((id, gib), index)| Card {
        id: (*id).into(),
        class: gpu::CLASS.into(),
        index,
        model: "test".into(),
        capacity: gpushare_core::Amounts::of(MEMORY, gib * GIB),
        healthy: true,
    });
    NodeFacts {
        name: name.into(),
        cards: cards.collect(),
        held: Vec::new(),
        allocatable: Host::default(),
    }
}

/// A pod of `gib` GiB; bound if it has a node, with a record if it has one.
fn pod(uid: &str, gib: u64, node: Option<&str>, record: Option<&str>, phase: &str) -> PodFacts {
    let annotations = record.map_or(Value::Null, |record| json!({names::ALLOCATION: record}));
    facts(uid, gib, node, &annotations, phase)
}

/// A pod with these annotations.
fn annotated(uid: &str, gib: u64, node: Option<&str>, annotations: &Value) -> PodFacts {
    facts(uid, gib, node, annotations, "Pending")
}

/// A pod that waits with a choice that makes no sense.
fn senseless(uid: &str, gib: u64) -> PodFacts {
    annotated(uid, gib, None, &json!({names::POLICY: "x"}))
}

fn facts(uid: &str, gib: u64, node: Option<&str>, annotations: &Value, phase: &str) -> PodFacts {
    let pod = json!({
        "metadata": {"name": format!("pod-{uid}"), "namespace": "team", "uid": uid,
            "annotations": annotations},
        "spec": {"nodeName": node, "containers": [
            {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": gib.to_string()}}}]},
        "status": {"phase": phase},
    });
    let pod: slim::Pod = serde_json::from_value(pod).unwrap();
    PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
}

pub(super) fn pending(uid: &str, gib: u64) -> PodFacts {
    pod(uid, gib, None, None, "Pending")
}

pub(super) fn running(uid: &str, gib: u64, record: &str) -> PodFacts {
    pod(uid, gib, Some(NODE), Some(record), "Running")
}

/// The pod appears in the watch, and a bind of it begins.
pub(super) fn reserve(state: &mut Books, uid: &str, gib: u64) -> Result<Reservation, String> {
    reserve_on(state, uid, gib, NODE)
}

pub(super) fn reserve_on(
    state: &mut Books,
    uid: &str,
    gib: u64,
    node: &str,
) -> Result<Reservation, String> {
    let facts = pending(uid, gib);
    let ask = facts.ask.clone().unwrap().unwrap();
    state.apply_pod(facts);
    let reserved = state.reserve(&named(uid), &ask, &node.into(), AliyunUnit::GiB, 1);
    reserved.map_err(|why| why.to_string())
}

pub(super) fn named(uid: &str) -> PodRef {
    PodRef {
        uid: uid.into(),
        namespace: "team".to_owned(),
        name: format!("pod-{uid}"),
    }
}

impl Books {
    pub(super) fn bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Bound)
    }

    fn not_bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Refused(String::new()))
    }

    fn unknown(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Unknown(String::new()))
    }
}

fn used(state: &Books, card: &str) -> u64 {
    let view = state.ledger().node(NODE).unwrap().card(card).unwrap();
    view.used.get(MEMORY) / GIB
}
