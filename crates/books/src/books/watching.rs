//! What the API server shows of pods: events and lists of the watch, and reads of single pods.

use std::collections::HashMap;
use std::sync::Arc;

use gpushare_core::ledger::{BookingState, BoundPod};
use gpushare_core::{Host, Ledger, NodeName, PodUid};
use gpushare_kube::PodRef;
use gpushare_kube::convert::PodFacts;

use super::Books;
use crate::evidence::proven;
use crate::pods::KnownPod;
use crate::reads::{Finding, Read};

impl Books {
    /// The pod as the watch shows it. Pods that ask for nothing of ours, or for something invalid, are not
    /// kept.
    pub fn apply_pod(&mut self, facts: PodFacts) {
        self.take_in(facts, Ledger::confirm);
    }

    /// `book` enters a bound pod into the ledger: as confirmed by the watch, or as shown by a single read.
    fn take_in(&mut self, mut facts: PodFacts, book: fn(&mut Ledger, BoundPod)) {
        self.nodes.share_name(&mut facts);
        if facts.ended {
            self.end_pod(&facts.uid);
            return;
        }
        if facts.node.is_none() && facts.ask.is_err() {
            self.apply_invalid(&facts.uid);
            return;
        }
        let bound = proven(&self.pods, self.nodes.ledger(), &facts);
        if bound.is_some() {
            self.attempts.end(&facts.uid);
        }
        if let Some(node) = self.nodes.place(&facts, bound, book) {
            self.stop_waiting_elsewhere(&facts.uid, &node);
        }
        let claim = facts.claim(self.ledger().classes());
        if let Some(pod) = self.pods.known(facts) {
            let uid = pod.pod.uid.clone();
            if !pod.wants_node() {
                self.stop_waiting(&uid);
            }
            if self.lessons.lacked(&self.pods, &uid) {
                self.nodes.observe(&pod.ask, pod.host);
            }
            self.keep(pod);
            self.note_claim(&uid, claim);
        }
        self.preemptions.ring();
    }

    /// A pod that waits for a node with an invalid request gets no decision. Its request may have been valid when its
    /// bind began, and the bind may take effect before the watch shows it. So the booking stays until the outcome of
    /// the bind is known.
    pub fn apply_invalid(&mut self, pod: &PodUid) {
        if !self.nodes.is_booked(pod) {
            self.end_pod(pod);
            return;
        }
        self.stop_waiting(pod);
        self.forget_preemption(pod);
        let known = self.pods.get(pod.as_str());
        if let Some(known) = known.filter(|known| !known.set_aside) {
            let set_aside = KnownPod {
                set_aside: true,
                ..KnownPod::clone(known)
            };
            self.keep(set_aside);
        }
        self.preemptions.ring();
    }

    /// A pod that asks for nothing of ours, or for something invalid, with what it takes of its node.
    pub fn apply_other(&mut self, pod: &PodUid, takes: Option<(NodeName, Host)>) {
        self.end_pod(pod);
        if let Some((node, host)) = takes {
            self.nodes.occupy(pod, &node, host);
        }
    }

    /// The pod's containers have ended, or the pod is gone.
    pub fn end_pod(&mut self, pod: &PodUid) {
        let held = self.nodes.is_booked(pod);
        if let Some(known) = self.pods.remove(pod) {
            self.lessons.remember(pod);
            if held {
                self.nodes.observe_end(&known.ask, known.host);
            }
        }
        self.stop_waiting(pod);
        self.forget_preemption(pod);
        self.attempts.forget(&mut self.nodes, pod);
        self.reads.outdate(pod);
        self.preemptions.ring();
    }

    /// Applies a complete list of pods, and what other pods take of their nodes. Returns the pods to be read one by
    /// one: their bookings are newer than the list, or the pods are gone.
    pub fn replace_pods(
        &mut self,
        mut listed: Vec<PodFacts>,
        others: &[(PodUid, NodeName, Host)],
    ) -> Vec<PodRef> {
        listed.retain(|facts| !facts.ended);
        for facts in &mut listed {
            self.nodes.share_name(facts);
        }
        let listed_on = listed
            .iter()
            .filter_map(|facts| Some((&facts.uid, facts.node.as_ref()?, facts.host)));
        let others = others.iter().map(|(pod, node, host)| (pod, node, *host));
        self.nodes.replace_occupants(others.chain(listed_on));
        let (mut pods, mut bound, mut claims) = (HashMap::new(), Vec::new(), HashMap::new());
        for facts in listed {
            bound.extend(proven(&self.pods, self.nodes.ledger(), &facts));
            let claim = facts.claim(self.ledger().classes());
            claims.extend(claim.map(|claim| (facts.uid.clone(), claim)));
            let known = self.pods.known(facts);
            pods.extend(known.map(|pod| (pod.pod.uid.clone(), Arc::new(pod))));
        }
        let (lessons, before) = (&mut self.lessons, &self.pods);
        let new = pods.values();
        let new = new.filter(|pod| lessons.lacked(before, &pod.pod.uid));
        let new: Vec<Arc<KnownPod>> = new.cloned().collect();
        let unsure = self.nodes.rebuild(bound);
        let to_read = self.keep_listed(pods, unsure);
        self.replace_claims(claims);
        self.nodes.redraw_all();
        // Comes after the redraw, because a lesson depends on what is free.
        let new = new.iter().map(|pod| (&pod.ask, pod.host));
        self.nodes.observe_all(new);
        self.attempts.end_confirmed(&self.nodes);
        self.reads.outdate_all();
        self.pods_listed = true;
        to_read
            .iter()
            .filter_map(|pod| self.pods.reference(pod))
            .collect()
    }

    /// Keeps the listed pods, and those whose booking may be newer than the list. Returns which of the latter must be
    /// read.
    fn keep_listed(
        &mut self,
        mut pods: HashMap<PodUid, Arc<KnownPod>>,
        unsure: Vec<PodUid>,
    ) -> Vec<PodUid> {
        let mut to_read = Vec::new();
        for uid in unsure {
            if let Some(pod) = self.pods.remove(&uid) {
                pods.entry(uid.clone()).or_insert(pod);
            }
            match self.nodes.booking_state(&uid) {
                // The answer to its bind comes before any read.
                Some(BookingState::Reserved) => self.attempts.miss(uid),
                Some(BookingState::Settled) => to_read.push(uid),
                _ => {}
            }
        }
        let before = self.replace_index(pods);
        let gone = |pod: &&PodUid| self.pods.get(pod.as_str()).is_none();
        for gone in before.keys().filter(gone) {
            self.lessons.remember(gone);
        }
        self.stop_waiting_unless_pending(|pod| before.contains_key(pod));
        to_read
    }

    pub fn begin_read(&mut self, pod: &PodUid) -> Read {
        self.reads.begin(pod)
    }

    /// Ends a read that got no answer.
    pub fn abandon_read(&mut self, pod: &PodUid, read: Read) {
        self.reads.end(pod, read);
    }

    /// Applies the answer of a read.
    pub fn finish_read(&mut self, pod: &PodUid, read: Read, answer: Option<PodFacts>) -> Finding {
        if self.reads.end(pod, read) {
            return Finding::Stale;
        }
        let Some(facts) = answer.filter(|facts| facts.uid == *pod && !facts.ended) else {
            self.end_pod(pod);
            return Finding::Gone;
        };
        // The booking is not confirmed yet, because a list under way may be older than this answer.
        self.take_in(facts.clone(), Ledger::learn);
        Finding::Found(Box::new(facts))
    }

    /// Applies the answer of a fence: no bind that was decided before the fence can still take effect.
    ///
    /// A fence of a pod without a node stays valid whatever has become known about the pod since. If the fence had to
    /// be repeated, a tenant that changes a pod all the time would keep binds closed at the beginning of a term.
    pub fn finish_fence(&mut self, pod: &PodUid, read: Read, answer: Option<PodFacts>) -> Finding {
        let unbound = answer
            .clone()
            .filter(|facts| facts.uid == *pod && facts.node.is_none() && !facts.ended);
        let finding = self.finish_read(pod, read, answer);
        let Some(facts) = unbound else {
            return finding;
        };
        self.attempts.clear_doubt(&mut self.nodes, pod, read.number);
        match finding {
            Finding::Stale => Finding::Fenced(Box::new(facts)),
            current => current,
        }
    }
}
