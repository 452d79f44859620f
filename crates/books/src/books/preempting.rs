//! Which pods contend for room that others hold, and for which of them room is claimed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use gpushare_core::preempt::{ClaimRecord, Evictor};
use gpushare_core::{NodeName, PodUid, Record};
use gpushare_kube::PodRef;

use super::Books;
use crate::contenders::Contention;
use crate::pods::KnownPod;
use crate::preemptions::{
    NewPreemption, Now, Outcome, Proposal, ShownClaim, Situation, StaleProposal, Step,
};

impl Books {
    /// Keeps the pod, and lets pods contend that may do so now.
    pub(super) fn keep(&mut self, pod: KnownPod) {
        let (uid, rank, placed) = (pod.pod.uid.clone(), pod.rank, pod.node.is_some());
        let before = self.pods.keep(pod);
        let situation = Situation::new(&self.pods, &self.nodes, &self.preemptions);
        if placed {
            if before.is_some_and(|before| rank < before.rank) {
                self.contenders.add_all(&situation);
            }
        } else if let Some(pod) = self.pods.get(uid.as_str()) {
            self.contenders.add_unasked(pod, &situation);
        }
    }

    /// Keeps these pods and no others. Returns the previous ones.
    pub(super) fn replace_index(
        &mut self,
        pods: HashMap<PodUid, Arc<KnownPod>>,
    ) -> HashMap<PodUid, Arc<KnownPod>> {
        let before = self.pods.replace(pods);
        let situation = Situation::new(&self.pods, &self.nodes, &self.preemptions);
        self.contenders.add_all(&situation);
        before
    }

    /// The best pod whose turn it is, and when the next one's turn comes.
    pub fn next_contender(&self, now: Now) -> (Option<Contention>, Option<Instant>) {
        let (best, next) = self.contenders.next(&self.situation(), &self.waiting, now);
        let contention = best.map(|pod| {
            let named = self.waiting.candidates(&pod.pod.uid);
            let nodes = named.map(|named| self.nodes.within(Some(&named)));
            Contention {
                nodes: nodes.unwrap_or_default(),
                pod,
            }
        });
        (contention, next)
    }

    /// No pod has to be evicted for this one.
    pub fn leave_contention(&mut self, pod: &PodUid) {
        self.contenders.remove(pod);
    }

    /// No pod can be evicted for this one at present. It contends again after a pause, once it is refused
    /// again.
    pub fn rest(&mut self, pod: &PodUid, now: Instant) {
        self.contenders.rest(pod, now);
    }

    /// The pod contends again after a pause, longer each time.
    pub fn contend_later(&mut self, pod: &PodUid, now: Instant) {
        self.contenders.add_later(pod, now);
    }

    /// The nodes on which a pod over budget holds a card and this pod finds no room.
    pub fn nodes_to_win_back(&self, pod: &PodUid) -> Vec<NodeName> {
        self.situation().nodes_to_win_back(&self.nodes, pod)
    }

    /// Claims the proposal's room, if it still makes sense.
    pub fn begin_preemption(
        &mut self,
        preemptor: &KnownPod,
        proposal: &Proposal,
        evictor: Evictor,
        now: Now,
    ) -> Result<NewPreemption, StaleProposal> {
        let (placement, outranked) = self.situation().check(preemptor, proposal, now)?;
        for other in &outranked {
            self.end_preemption(&other.uid);
            self.contenders.add_again(&other.uid, &self.waiting);
        }
        let (pod, node) = (&preemptor.pod.uid, proposal.node.clone());
        let room = Record::new(pod.clone(), node, self.ledger().classes(), &placement);
        let record = ClaimRecord::new(room, proposal.victims.clone(), evictor, now.millis);
        let claim = (record, placement);
        let (pods, nodes) = (&self.pods, &mut self.nodes);
        let first = self.preemptions.begin(pods, nodes, pod, claim);
        self.contenders.remove(pod);
        Ok(NewPreemption { first, outranked })
    }

    /// Gives the pod's claimed room back. The claim is removed from the pod later.
    pub fn end_preemption(&mut self, pod: &PodUid) {
        self.preemptions.end(&mut self.nodes, pod);
    }

    /// Forgets the pod's claim, because it is bound, ended or gone.
    pub(super) fn forget_preemption(&mut self, pod: &PodUid) {
        self.preemptions.forget(&mut self.nodes, pod);
        self.contenders.remove(pod);
    }

    /// This replica has stopped leading. It keeps only the claims that the watch has shown.
    pub fn stop_preempting(&mut self) {
        self.preemptions.stop(&mut self.nodes);
    }

    /// Ends all preemptions, because none are wanted.
    pub fn end_all_preemptions(&mut self) {
        self.preemptions.end_all(&mut self.nodes);
    }

    /// Applies what the watch shows of the pod's claim.
    pub(super) fn note_claim(&mut self, pod: &PodUid, shown: Option<ShownClaim>) {
        let known = self.pods.get(pod.as_str());
        if !known.is_some_and(|known| known.wants_node()) {
            self.forget_preemption(pod);
            return;
        }
        let (pods, nodes) = (&self.pods, &mut self.nodes);
        let lost = self.preemptions.note_claim(pods, nodes, pod, shown);
        if lost {
            self.contenders.add_again(pod, &self.waiting);
        }
    }

    /// Applies the claims that a complete list of pods carries.
    pub(super) fn replace_claims(&mut self, mut shown: HashMap<PodUid, ShownClaim>) {
        for pod in self.preemptions.uids() {
            let shown = shown.remove(&pod);
            self.note_claim(&pod, shown);
        }
        for (pod, shown) in shown {
            self.note_claim(&pod, Some(shown));
        }
        self.preemptions.ring();
    }

    /// The steps to be done now, each marked as under way; and when to look again even if nothing
    /// happens.
    pub fn preemption_steps(&mut self, now: Now) -> (Vec<(PodRef, Step)>, Option<Instant>) {
        self.preemptions.steps(&self.pods, self.nodes.ledger(), now)
    }

    /// Notes what became of a step.
    pub fn finish_step(&mut self, pod: &PodUid, step: &Step, outcome: Outcome, now: Instant) {
        let nodes = &mut self.nodes;
        self.preemptions
            .finish_step(nodes, (pod, step), outcome, now);
    }
}
