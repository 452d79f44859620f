//! Binds in progress: from the reservation to a known outcome.
//!
//! Only a booking that is still reserved is changed here; once the watch has spoken, it stays as the
//! watch says.

use std::collections::BTreeMap;
use std::time::Instant;

use gpushare_core::gpu::{AliyunUnit, env};
use gpushare_core::ledger::State as Booked;
use gpushare_core::{CardId, NodeName, Placement, PodAsk, PodUid, Record, Why};

use super::{PodRef, State};

/// Binds of one pod, from the first reservation until the outcome of all is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Attempts {
    /// The term of leadership in which the last one was begun.
    pub(super) term: u64,
    /// Some request may take effect until then, and only a read after it can tell.
    pub(super) doubtful_until: Option<Instant>,
    /// A list without this booking came while a bind was under way.
    pub(super) unlisted: bool,
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
        pod: &PodUid,
        ask: &PodAsk,
        node: &NodeName,
        term: u64,
        unit: AliyunUnit,
        now_nanos: i128,
    ) -> Result<Reservation, Why> {
        let earlier = self.attempts.get(pod).filter(|all| all.term != term);
        if let (Some(_), Some(booking)) = (earlier, self.ledger.booking(pod.as_str())) {
            let node = booking.node.clone();
            return Err(Why::BindInProgress { node });
        }
        let host = self
            .pods
            .get(pod)
            .map(|known| known.host)
            .unwrap_or_default();
        let packing = &self.packing;
        let placement = self.ledger.reserve_with(pod, node, ask, |search, rooms| {
            packing.place(ask, host, node, search, rooms)
        })?;
        self.packing.set_pod(pod, Some((node, host)));
        self.redraw(std::slice::from_ref(node));
        self.stop_waiting_booked(pod, node);
        self.attempts.entry(pod.clone()).or_default().term = term;
        let record = Record::new(pod.clone(), node.clone(), self.ledger.classes(), &placement);
        let view = self.ledger.node(node.as_str());
        let card = |id: &CardId| Some(view?.card(id.as_str())?.card);
        Ok(Reservation {
            record: record.encode(),
            compatible: env::annotations(ask, &placement, node, unit, now_nanos, card),
            placement,
        })
    }

    /// The API server accepted the bind.
    pub(crate) fn settle(&mut self, pod: &PodUid) -> Followup {
        self.ledger.settle(pod);
        let attempts = self.attempts.remove(pod).unwrap_or_default();
        if attempts.unlisted && self.booked(pod) == Some(Booked::Settled) {
            Followup::ReadNow
        } else {
            Followup::Nothing
        }
    }

    /// This bind has not taken effect; an earlier one of the same pod may.
    pub(crate) fn refuse(&mut self, pod: &PodUid) -> Followup {
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
    pub(crate) fn overtaken(&mut self, pod: &PodUid) {
        if self.booked(pod) == Some(Booked::Reserved) {
            self.forget_booking(pod);
        }
    }

    /// The bind may take effect until the given moment.
    pub(crate) fn doubt(&mut self, pod: &PodUid, until: Instant) -> Followup {
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

    /// The pod, if its booking is in doubt and a read that starts now can end that.
    pub(crate) fn to_be_cleared(&self, pod: &PodUid, now: Instant) -> Option<PodRef> {
        let until = self.attempts.get(pod)?.doubtful_until?;
        let in_doubt = self.booked(pod) == Some(Booked::InDoubt);
        (in_doubt && until <= now).then(|| self.reference(pod))?
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
