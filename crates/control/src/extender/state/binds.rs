//! Binds in progress: from the reservation to a known outcome.
//!
//! Only a booking that is still reserved is changed here; once the watch has spoken, it stays as the
//! watch says.

use std::collections::BTreeMap;
use std::time::Instant;

use gpushare_core::gpu::{AliyunUnit, env};
use gpushare_core::ledger::State as Booked;
use gpushare_core::{CardId, NodeName, Placement, PodAsk, PodUid, Record, Why};
use gpushare_kube::bind::Outcome;

use super::{KnownPod, PodRef, State};

/// Binds of one pod, from the first reservation until the outcome of all is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    /// The term of leadership in which the last one was begun.
    pub(super) term: u64,
    /// Some request may take effect until then, and only a read after it can tell.
    pub(super) doubtful_until: Option<Instant>,
    /// By the watch the pod was gone when its bind began, or by a list that came meanwhile. That may be
    /// old or final: only a read can tell.
    pub(super) missing: bool,
}

/// A booking just made, and what must be written with the bind.
#[derive(Clone, Debug)]
pub(crate) struct Reservation {
    pub placement: Placement,
    pub record: String,
    /// What the predecessors' tools read.
    pub compatible: BTreeMap<String, String>,
}

/// What remains to be done after a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Followup {
    Nothing,
    ReadNow,
    ReadAfter(Instant),
}

impl State {
    /// Decides the pod's cards on the node and books them.
    ///
    /// A bind in doubt may be tried again with the same cards, but only in its own term: in between
    /// another leader may have given the room away.
    pub(crate) fn reserve(
        &mut self,
        pod: &PodRef,
        ask: &PodAsk,
        node: &NodeName,
        term: u64,
        unit: AliyunUnit,
        now_nanos: i128,
    ) -> Result<Reservation, Why> {
        let uid = &pod.uid;
        let earlier = self.attempts.get(uid).filter(|all| all.term != term);
        if let (Some(_), Some(booking)) = (earlier, self.ledger.booking(uid.as_str())) {
            let node = booking.node.clone();
            return Err(Why::BindInProgress { node });
        }
        let known = self.pods.get(uid);
        let host = known.map(|known| known.host).unwrap_or_default();
        let packing = &self.packing;
        let placement = self.ledger.reserve_with(uid, node, ask, |search, rooms| {
            packing.place(ask, host, node, search, rooms)
        })?;
        self.packing.set_pod(uid, Some((node, host)));
        self.redraw(std::slice::from_ref(node));
        self.stop_waiting_booked(uid, node);
        let attempts = self.attempts.entry(uid.clone()).or_default();
        attempts.term = term;
        // As long as it is booked, it must be possible to read it.
        self.pods.entry(uid.clone()).or_insert_with(|| {
            attempts.missing = true;
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

    /// What a bind's outcome means for its booking. If that is unknown, the bind may take effect until the
    /// given moment.
    pub(crate) fn conclude(&mut self, pod: &PodUid, outcome: &Outcome, until: Instant) -> Followup {
        let missing = self.attempts.get(pod).is_some_and(|all| all.missing);
        let followup = match outcome {
            Outcome::Bound => {
                self.settle(pod);
                Followup::Nothing
            }
            Outcome::Refused(_) => self.refuse(pod),
            Outcome::Overtaken(_) => {
                self.overtaken(pod);
                Followup::Nothing
            }
            Outcome::Unknown(_) => self.doubt(pod, until),
        };
        match followup {
            Followup::Nothing if missing => Followup::ReadNow,
            other => other,
        }
    }

    /// The API server accepted the bind.
    fn settle(&mut self, pod: &PodUid) {
        self.ledger.settle(pod);
        self.attempts.remove(pod);
    }

    /// This bind has not taken effect; an earlier one of the same pod may.
    fn refuse(&mut self, pod: &PodUid) -> Followup {
        if self.booked(pod) != Some(Booked::Reserved) {
            return Followup::Nothing;
        }
        let doubtful_until = self.attempts.get(pod).and_then(|all| all.doubtful_until);
        if let Some(until) = doubtful_until {
            self.ledger.doubt(pod);
            return Followup::ReadAfter(until);
        }
        self.forget_booking(pod);
        Followup::Nothing
    }

    /// No bind of ours can take effect on the pod any more.
    fn overtaken(&mut self, pod: &PodUid) {
        if self.booked(pod) == Some(Booked::Reserved) {
            self.forget_booking(pod);
        }
    }

    /// The bind may take effect until the given moment.
    fn doubt(&mut self, pod: &PodUid, until: Instant) -> Followup {
        if self.booked(pod) != Some(Booked::Reserved) {
            return Followup::Nothing;
        }
        self.ledger.doubt(pod);
        let attempts = self.attempts.entry(pod.clone()).or_default();
        let until = attempts
            .doubtful_until
            .map_or(until, |known| known.max(until));
        attempts.doubtful_until = Some(until);
        Followup::ReadAfter(until)
    }

    /// Whether the pod's booking is in doubt and a read that starts now can end that.
    pub(crate) fn to_be_cleared(&self, pod: &PodUid, now: Instant) -> bool {
        let attempts = self.attempts.get(pod);
        let until = attempts.and_then(|all| all.doubtful_until);
        self.booked(pod) == Some(Booked::InDoubt) && until.is_some_and(|until| until <= now)
    }

    /// The last moment at which a bind in doubt may take effect.
    pub(crate) fn doubtful_until(&self) -> Option<Instant> {
        let attempts = self.attempts.values();
        attempts.filter_map(|all| all.doubtful_until).max()
    }

    pub(crate) fn reference(&self, pod: &PodUid) -> Option<PodRef> {
        let known = self.pods.get(pod)?;
        Some(PodRef {
            uid: pod.clone(),
            namespace: known.namespace.clone(),
            name: known.name.clone(),
        })
    }

    pub(super) fn booked(&self, pod: &PodUid) -> Option<Booked> {
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
