mod binds;
mod lessons;
mod watches;

use std::sync::Barrier;

use gpushare_core::card::Card;
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::BookingState;
use gpushare_core::{HeldPod, Host, Placement, names};
use gpushare_kube::slim;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::*;
use crate::Finding;

const CARD: &str = "GPU-a";
pub(crate) const NODE: &str = "n1";
const GIB: u64 = 1024;

/// Books that know one node with cards of the given GiB, and no pods.
pub(crate) fn books(cards: &[(&str, u64)]) -> Books {
    let mut books = Books::new(gpu::classes(), Policy::default(), Bells::default());
    books.replace_nodes(vec![node(NODE, cards)]);
    books.replace_pods(Vec::new(), &[]);
    books
}

pub(crate) fn node(name: &str, cards: &[(&str, u64)]) -> NodeFacts {
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

pub(crate) fn pending(uid: &str, gib: u64) -> PodFacts {
    pod(uid, gib, None, None, "Pending")
}

pub(crate) fn running(uid: &str, gib: u64, record: &str) -> PodFacts {
    pod(uid, gib, Some(NODE), Some(record), "Running")
}

/// The pod appears in the watch, and a bind of it begins.
pub(crate) fn reserve(books: &mut Books, uid: &str, gib: u64) -> Result<Reservation, String> {
    reserve_on(books, uid, gib, NODE)
}

pub(crate) fn reserve_on(
    books: &mut Books,
    uid: &str,
    gib: u64,
    node: &str,
) -> Result<Reservation, String> {
    let facts = pending(uid, gib);
    let ask = facts.ask.clone().unwrap().unwrap();
    books.apply_pod(facts);
    let reserved = books.reserve(&named(uid), &ask, &node.into(), AliyunUnit::GiB, 1);
    reserved.map_err(|why| why.to_string())
}

/// A bound pod that the watch shows running; returns its record.
fn runs(books: &mut Books, uid: &str, gib: u64) -> String {
    let record = reserve(books, uid, gib).unwrap().record;
    books.apply_pod(running(uid, gib, &record));
    record
}

/// A bind of the pod `u1` to the only card, without an answer, and its record.
fn in_doubt() -> (Books, PodUid, String) {
    let (mut books, uid) = (books(&[(CARD, 8)]), "u1".into());
    let record = reserve(&mut books, "u1", 8).unwrap().record;
    books.unknown(&uid);
    (books, uid, record)
}

pub(crate) fn named(uid: &str) -> PodRef {
    PodRef {
        uid: uid.into(),
        namespace: "team".to_owned(),
        name: format!("pod-{uid}"),
    }
}

impl Books {
    pub(crate) fn bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Bound)
    }

    fn not_bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Refused(String::new()))
    }

    fn unknown(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Unknown(String::new()))
    }

    /// A read of the pod that is answered before anything else happens.
    fn read_now(&mut self, pod: &PodUid, shown: Option<PodFacts>) {
        let read = self.begin_read(pod);
        self.finish_read(pod, read, shown);
    }

    /// As [`Self::read_now`], with a write that makes earlier binds void.
    fn fence_now(&mut self, pod: &PodUid, shown: Option<PodFacts>) {
        let fence = self.begin_read(pod);
        self.finish_fence(pod, fence, shown);
    }

    pub(super) fn forget_booking(&mut self, pod: &PodUid) {
        self.attempts.forget(&mut self.nodes, pod);
    }

    /// Claims room for the pod, or gives it back.
    pub(crate) fn toggle_claim(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        ask: &PodAsk,
        placement: Placement,
    ) {
        let claimed = self.ledger().claimed(pod.as_str());
        match claimed.map(|claim| claim.node.clone()) {
            Some(node) => self.nodes.unclaim(pod, &node),
            None => self.nodes.claim(pod, node, ask, placement),
        }
    }

    pub(crate) fn kept_verdicts(&self) -> &Verdicts {
        &self.verdicts
    }
}

fn used(books: &Books, card: &str) -> u64 {
    let view = books.ledger().node(NODE).unwrap().card(card).unwrap();
    view.used.get(MEMORY) / GIB
}
