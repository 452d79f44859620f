//! Binds in progress: from the reservation to a known outcome.
//!
//! Only a booking that is still reserved is changed here; once the watch has spoken, it stays as the
//! watch says.

use std::collections::BTreeMap;

use gpushare_core::gpu::{AliyunUnit, env};
use gpushare_core::ledger::BookingState;
use gpushare_core::room::CardRoom;
use gpushare_core::{CardId, NodeName, Placement, PodAsk, PodUid, Record, Search, Steps, Why};
use gpushare_kube::bind::Outcome;

use super::{Books, KnownPod};
use gpushare_kube::PodRef;

/// A bind of one pod, from the reservation until its outcome is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempt {
    /// The last read that was begun before it. A fence up to that one may have been written before the pod had the version
    /// that the bind names, and says nothing about it.
    pub(super) last_read: u64,
    /// By the watch the pod was gone when its bind began, or by a list that came meanwhile. That may be
    /// old or final: only a read can tell.
    pub(super) missing: bool,
}

/// A booking just made, and what must be written with the bind.
#[derive(Clone, Debug)]
pub struct Reservation {
    pub placement: Placement,
    pub record: String,
    /// What the predecessors' tools read.
    pub compatible: BTreeMap<String, String>,
}

/// What remains to be done after a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Followup {
    Nothing,
    /// The pod is to be read.
    Read,
    /// The pod is to be fenced, so that the bind cannot take effect any more or is found to have done so.
    Fence,
}

impl Books {
    /// Decides the pod's cards on the node and books them.
    ///
    /// The version of the pod that the bind is to name must be known already: a fence that begins after this ends
    /// the doubt about the bind.
    pub fn reserve(
        &mut self,
        pod: &PodRef,
        ask: &PodAsk,
        node: &NodeName,
        unit: AliyunUnit,
        now_nanos: i128,
    ) -> Result<Reservation, Why> {
        let uid = &pod.uid;
        let known = self.pods.get(uid);
        let host = known.map(|known| known.host).unwrap_or_default();
        let packing = &self.packing;
        let choose =
            |search: &Search<'_>, rooms: &[CardRoom]| packing.place(ask, host, node, search, rooms);
        let steps = Steps::for_request();
        let reserved = self.ledger.reserve_with(uid, node, ask, &steps, choose);
        let placement = reserved?;
        self.packing.set_pod(uid, Some((node, host)));
        self.redraw(std::slice::from_ref(node));
        self.stop_waiting_booked(uid, node);
        let attempt = self.attempts.entry(uid.clone()).or_default();
        attempt.last_read = self.last_read;
        // As long as it is booked, it must be possible to read it.
        self.pods.entry(uid.clone()).or_insert_with(|| {
            attempt.missing = true;
            KnownPod::gone(pod, ask)
        });
        let record = Record::new(uid.clone(), node.clone(), self.ledger.classes(), &placement);
        let view = self.ledger.node(node.as_str());
        let card = |id: &CardId| Some(view?.card(id.as_str())?.card);
        Ok(Reservation {
            record: record.encode(),
            compatible: env::annotations(ask, &placement, node, unit, now_nanos, card),
            placement,
        })
    }

    /// What a bind's outcome means for its booking.
    pub fn conclude(&mut self, pod: &PodUid, outcome: &Outcome) -> Followup {
        let missing = self.attempts.get(pod).is_some_and(|all| all.missing);
        let in_doubt = match outcome {
            Outcome::Bound => {
                self.settle(pod);
                false
            }
            Outcome::Refused(_) | Outcome::Stale(_) | Outcome::Overtaken(_) => {
                self.end_reserved(pod);
                false
            }
            Outcome::Unknown(_) => self.doubt(pod),
        };
        match (in_doubt, missing) {
            (true, _) => Followup::Fence,
            (false, true) => Followup::Read,
            (false, false) => Followup::Nothing,
        }
    }

    /// The API server accepted the bind.
    fn settle(&mut self, pod: &PodUid) {
        self.ledger.settle(pod);
        self.attempts.remove(pod);
    }

    /// The bind cannot take effect any more.
    fn end_reserved(&mut self, pod: &PodUid) {
        if self.booked(pod) == Some(BookingState::Reserved) {
            self.forget_booking(pod);
        }
    }

    /// The bind may take effect; whether that is to be found out.
    fn doubt(&mut self, pod: &PodUid) -> bool {
        let reserved = self.booked(pod) == Some(BookingState::Reserved);
        self.ledger.doubt(pod);
        reserved
    }

    /// A fence that began as this read shows the pod without a node.
    pub(super) fn clear_doubt(&mut self, pod: &PodUid, fence: u64) {
        let attempt = self.attempts.get(pod);
        let after_the_bind = attempt.is_some_and(|attempt| attempt.last_read < fence);
        if after_the_bind && self.booked(pod) == Some(BookingState::InDoubt) {
            self.forget_booking(pod);
        }
    }

    pub fn reference(&self, pod: &PodUid) -> Option<PodRef> {
        let known = self.pods.get(pod)?;
        Some(PodRef {
            uid: pod.clone(),
            namespace: known.namespace.clone(),
            name: known.name.clone(),
        })
    }

    pub(super) fn booked(&self, pod: &PodUid) -> Option<BookingState> {
        self.ledger
            .booking(pod.as_str())
            .map(|booking| booking.state)
    }

    pub(super) fn forget_booking(&mut self, pod: &PodUid) {
        let mut changed: Vec<NodeName> = self.booked_node(pod).into_iter().collect();
        self.ledger.release(pod);
        for node in &changed {
            self.growth.room(node.as_str());
        }
        changed.extend(self.packing.set_pod(pod, None));
        self.redraw(&changed);
        self.attempts.remove(pod);
    }
}
