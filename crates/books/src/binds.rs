//! Binds in progress: from the reservation to a known outcome.
//!
//! The outcome of a bind changes a booking only while it is reserved or in doubt. Once the watch has shown the pod, the
//! booking stays as the watch shows it.

use std::collections::{BTreeMap, HashMap};

use gpushare_core::gpu::{AliyunUnit, env};
use gpushare_core::ledger::BookingState;
use gpushare_core::{CardId, Ledger, NodeName, Placement, PodAsk, PodUid, Record};
use gpushare_kube::bind::Outcome;

use crate::nodes::Nodes;

/// Binds whose outcome is not known yet, by pod.
#[derive(Debug, Default)]
pub(crate) struct Attempts(HashMap<PodUid, Attempt>);

#[derive(Clone, Copy, Debug, Default)]
struct Attempt {
    /// The last read that began before the bind. A fence with this number or a lower one may have been written before
    /// the pod had the version that the bind names, so it says nothing about the bind.
    last_read: u64,
    /// Whether the watch did not show the pod when the bind began, or a list since then did not. The watch may be
    /// behind, or the pod may be gone: only a read can tell.
    missing: bool,
}

impl Attempts {
    pub(crate) fn begin(&mut self, pod: &PodUid, last_read: u64, missing: bool) {
        let attempt = self.0.entry(pod.clone()).or_default();
        attempt.last_read = last_read;
        attempt.missing |= missing;
    }

    /// Notes that a list does not show the pod.
    pub(crate) fn miss(&mut self, pod: PodUid) {
        self.0.entry(pod).or_default().missing = true;
    }

    pub(crate) fn end(&mut self, pod: &PodUid) {
        self.0.remove(pod);
    }

    /// Called after a list. A bind whose booking is confirmed or gone is no longer in progress.
    pub(crate) fn end_confirmed(&mut self, nodes: &Nodes) {
        self.0.retain(|pod, _| {
            let state = nodes.booking_state(pod);
            state.is_some_and(|state| state != BookingState::Confirmed)
        });
    }

    /// Applies a bind's outcome to its booking. Returns what remains to be done.
    pub(crate) fn conclude(
        &mut self,
        nodes: &mut Nodes,
        pod: &PodUid,
        outcome: &Outcome,
    ) -> Followup {
        let missing = self.0.get(pod).is_some_and(|attempt| attempt.missing);
        let reserved = nodes.booking_state(pod) == Some(BookingState::Reserved);
        let in_doubt = match outcome {
            Outcome::Bound => {
                nodes.settle(pod);
                self.end(pod);
                false
            }
            // The bind cannot take effect any more.
            Outcome::Refused(_) | Outcome::Stale(_) | Outcome::Overtaken(_) => {
                if reserved {
                    self.forget(nodes, pod);
                }
                false
            }
            Outcome::Unknown(_) => {
                nodes.doubt(pod);
                reserved
            }
        };
        match (in_doubt, missing) {
            (true, _) => Followup::Fence,
            (false, true) => Followup::Read,
            (false, false) => Followup::Nothing,
        }
    }

    /// A fence shows the pod without a node. `fence` is the number of its read. If it began after the bind, the bind is
    /// void and its booking in doubt ends.
    pub(crate) fn clear_doubt(&mut self, nodes: &mut Nodes, pod: &PodUid, fence: u64) {
        let attempt = self.0.get(pod);
        let after_the_bind = attempt.is_some_and(|attempt| attempt.last_read < fence);
        if after_the_bind && nodes.booking_state(pod) == Some(BookingState::InDoubt) {
            self.forget(nodes, pod);
        }
    }

    /// Forgets the pod's bind and ends its booking.
    pub(crate) fn forget(&mut self, nodes: &mut Nodes, pod: &PodUid) {
        nodes.release(pod);
        self.end(pod);
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A booking just made, and what must be written with the bind.
#[derive(Clone, Debug)]
pub struct Reservation {
    pub placement: Placement,
    pub record: String,
    /// Annotations for the predecessors' tools.
    pub compatible: BTreeMap<String, String>,
}

impl Reservation {
    pub(crate) fn new(
        pod: &PodUid,
        ask: &PodAsk,
        node: &NodeName,
        placement: Placement,
        ledger: &Ledger,
        (unit, now_nanos): (AliyunUnit, i128),
    ) -> Self {
        let record = Record::new(pod.clone(), node.clone(), ledger.classes(), &placement);
        let view = ledger.node(node.as_str());
        let card = |id: &CardId| Some(view?.card(id.as_str())?.card);
        Self {
            record: record.encode(),
            compatible: env::annotations(ask, &placement, node, unit, now_nanos, card),
            placement,
        }
    }
}

/// What remains to be done after a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followup {
    Nothing,
    /// The pod must be read.
    Read,
    /// The pod must be fenced. After that, the bind has either taken effect or never will.
    Fence,
}
