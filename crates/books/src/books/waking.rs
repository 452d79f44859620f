//! Refused pods, and which of them to wake.

use std::time::Instant;

use gpushare_core::{NodeName, PodUid};
use gpushare_kube::PodRef;

use super::Books;
use crate::node_set::NodeSet;
use crate::preemptions::Situation;
use crate::waiting::RefusedPod;
use crate::waiting::plan::{Outlook, Plan};

impl Books {
    /// The numbers of the nodes named in a refusal; unknown ones have none.
    pub fn numbered(&self, refused: &RefusedPod) -> NodeSet {
        self.nodes.numbered(refused.named())
    }

    /// Notes that the pod waits, with the nodes from [`Self::numbered`].
    pub fn refused(&mut self, refused: RefusedPod, candidates: NodeSet, now: Instant) {
        let RefusedPod { pod, moment, .. } = refused;
        let uid = &pod.pod.uid;
        let known = self.pods.get(uid.as_str());
        if self.nodes.is_booked(uid) || known.is_some_and(|known| !known.wants_node()) {
            return;
        }
        let situation = Situation::new(&self.pods, &self.nodes, &self.preemptions);
        self.contenders.add_refused(&pod, &situation);
        let prospect = self.waiting.refuse(pod, candidates, moment, now);
        self.leave_room(prospect);
        self.nodes.growth().ring_since(moment);
    }

    /// Adds every pending pod that the scheduler has not asked about: an earlier leader may have refused
    /// it, and room may have appeared since.
    pub fn await_all_pending(&mut self, now: Instant) {
        for pod in self.pods.pending() {
            if !self.nodes.is_booked(&pod.pod.uid) {
                self.waiting.add_unasked(pod, now);
            }
        }
        self.nodes.growth().ring_since(0);
    }

    /// The pod no longer waits. The room that it was woken for is left to others.
    pub fn stop_waiting(&mut self, pod: &PodUid) {
        self.contenders.remove(pod);
        let prospect = self.waiting.remove(pod);
        self.leave_room(prospect);
    }

    /// The pod was booked on the node. If its prospect was on another node, that room is left to others.
    pub(super) fn stop_waiting_elsewhere(&mut self, pod: &PodUid, node: &NodeName) {
        self.contenders.remove(pod);
        let prospect = self.waiting.remove(pod);
        self.leave_room(prospect.filter(|prospect| prospect != node));
    }

    /// Called after a list: only pending pods still wait. A pod that is not listed and was not `known`
    /// before may be newer than the list, so it still waits, too.
    pub(super) fn stop_waiting_unless_pending(&mut self, known: impl Fn(&PodUid) -> bool) {
        let pending = |pod: &PodUid| {
            let listed = self.pods.get(pod.as_str());
            listed.map_or_else(|| !known(pod), |listed| listed.wants_node())
                && !self.nodes.is_booked(pod)
        };
        let over = self.waiting.uids().filter(|pod| !pending(pod));
        let over: Vec<PodUid> = over.cloned().collect();
        for pod in over {
            self.stop_waiting(&pod);
        }
    }

    /// What a decision about which pods to wake is based on now.
    pub fn outlook(&self, now: Instant) -> Outlook {
        let (ledger, growth) = (self.nodes.ledger(), self.nodes.growth());
        Outlook::new(&self.waiting, ledger, growth, now)
    }

    /// Ends prospects that have lasted too long.
    pub fn end_prospects(&mut self, now: Instant) {
        let left = self.waiting.end_prospects(now);
        self.leave_room(left);
    }

    /// The wake did not reach the pod.
    pub fn wake_failed(&mut self, pod: &PodUid) {
        let prospect = self.waiting.wake_failed(pod);
        self.leave_room(prospect);
    }

    /// Pods that were woken have not taken the room on these nodes.
    fn leave_room(&mut self, nodes: impl IntoIterator<Item = NodeName>) {
        for node in nodes {
            self.nodes.leave_room(&node);
        }
    }

    /// Notes a plan. Returns the pods to be woken now. Pods that were booked or refused since the outlook
    /// are skipped.
    pub fn note_plan(&mut self, plan: Plan, now: Instant) -> Vec<PodRef> {
        self.waiting.note_plan(plan, now)
    }
}
