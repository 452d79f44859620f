//! Pod events: what the watch shows becomes bookings.

use std::collections::HashMap;

use gpushare_core::ledger::{BookingState, Bound};
use gpushare_core::{Host, Ledger, NodeName, PodAsk, PodUid};
use gpushare_kube::convert::PodFacts;

use super::{Books, KnownPod};
use gpushare_kube::PodRef;

impl Books {
    /// The pod as the watch shows it. Pods that ask for nothing of ours, or for something invalid, are not
    /// kept.
    pub fn apply_pod(&mut self, facts: PodFacts) {
        self.take_in(facts, Ledger::confirm);
    }

    /// `book` says how sure the books may be of a bound pod.
    pub(super) fn take_in(&mut self, mut facts: PodFacts, book: fn(&mut Ledger, Bound)) {
        self.share_node(&mut facts);
        if facts.ended {
            self.end_pod(&facts.uid);
            return;
        }
        if facts.node.is_none() && facts.ask.is_err() {
            self.apply_invalid(&facts.uid);
            return;
        }
        let before = self.booked_node(&facts.uid);
        if let Some(bound) = self.believed(&facts) {
            book(&mut self.ledger, bound);
            self.attempts.remove(&facts.uid);
        }
        let mut changed = self.occupy(&facts.uid, facts.node.as_ref(), facts.host);
        let booked = self.booked_node(&facts.uid);
        if booked != before {
            if let Some(left) = &before {
                self.growth.room(left.as_str());
            }
            changed.extend(before);
            changed.extend(booked.clone());
        }
        self.redraw(&changed);
        if let Some(node) = booked {
            self.stop_waiting_booked(&facts.uid, &node);
        }
        let shown = facts.claim(self.ledger.classes());
        if let Some((uid, pod)) = self.known(facts) {
            if !pod.wants_node() {
                self.stop_waiting(&uid);
            }
            if self.teaches(&uid) {
                self.packing.observe(&pod.ask, pod.host);
            }
            self.keep(&uid, pod);
            self.note_claim(&uid, shown);
        }
        self.ring_for_preemptions();
    }

    /// A pod that waits for a node with a request that makes no sense: nothing is decided for it. It may have
    /// made sense when a bind of it began, and that bind may have taken effect before the watch showed anything of it, so
    /// what it has booked stays until its outcome is known.
    pub fn apply_invalid(&mut self, pod: &PodUid) {
        if self.booked(pod).is_none() {
            self.end_pod(pod);
            return;
        }
        self.stop_waiting(pod);
        self.forget_preemption(pod);
        if let Some(known) = self.pods.get(pod).filter(|known| !known.set_aside) {
            let set_aside = KnownPod {
                set_aside: true,
                ..known.clone()
            };
            self.keep(pod, set_aside);
        }
        self.ring_for_preemptions();
    }

    /// A pod that asks for nothing of ours, or for something invalid, with what it takes of its node.
    pub fn apply_other(&mut self, pod: &PodUid, takes: Option<(NodeName, Host)>) {
        self.end_pod(pod);
        if let Some((node, host)) = takes {
            let changed = self.occupy(pod, Some(&node), host);
            self.redraw(&changed);
        }
    }

    /// Lets the pod's node be named by the text that is kept of it already.
    fn share_node(&self, facts: &mut PodFacts) {
        let known = |node: &NodeName| self.nodes.get(node).cloned();
        if let Some(known) = facts.node.as_ref().and_then(known) {
            facts.node = Some(known);
        }
    }

    /// What the pod takes of its node beside cards. Until the watch shows where it is, the node that its
    /// booking names counts.
    fn occupy(&mut self, pod: &PodUid, node: Option<&NodeName>, host: Host) -> Vec<NodeName> {
        let booked = self.booked_node(pod);
        let node = node.or(booked.as_ref());
        self.packing.set_pod(pod, node.map(|node| (node, host)))
    }

    pub(super) fn booked_node(&self, pod: &PodUid) -> Option<NodeName> {
        let booking = self.ledger.booking(pod.as_str());
        booking.map(|booking| booking.node.clone())
    }

    pub(super) fn redraw(&mut self, nodes: &[NodeName]) {
        for node in nodes {
            self.packing.redraw(&self.ledger, node);
        }
    }

    /// The pod's containers have ended, or the pod is gone.
    pub fn end_pod(&mut self, pod: &PodUid) {
        let held = self.ledger.booking(pod.as_str()).is_some();
        if let Some(known) = self.drop_pod(pod).filter(|_| held) {
            self.packing.observe_end(&known.ask, known.host);
        }
        self.stop_waiting(pod);
        self.forget_preemption(pod);
        self.forget_booking(pod);
        self.outdate_reads(pod);
        self.ring_for_preemptions();
    }

    /// A complete list of pods. Returns those to be read one by one, because their booking is newer
    /// than the list or their pod is gone.
    pub fn replace_pods(
        &mut self,
        listed: Vec<PodFacts>,
        others: Vec<(PodUid, NodeName, Host)>,
    ) -> Vec<PodRef> {
        let mut pods = HashMap::new();
        let mut bound = Vec::new();
        let mut claims = HashMap::new();
        self.packing.clear_pods();
        for (uid, node, host) in others {
            self.packing.set_pod(&uid, Some((&node, host)));
        }
        for mut facts in listed.into_iter().filter(|facts| !facts.ended) {
            self.share_node(&mut facts);
            bound.extend(self.believed(&facts));
            let takes = facts.node.as_ref().map(|node| (node, facts.host));
            self.packing.set_pod(&facts.uid, takes);
            claims.extend(
                facts
                    .claim(self.ledger.classes())
                    .map(|claim| (facts.uid.clone(), claim)),
            );
            pods.extend(self.known(facts));
        }
        let new = pods.iter().filter(|(uid, _)| self.teaches(uid));
        let new = new.map(|(_, pod)| (pod.ask.clone(), pod.host));
        let new: Vec<(PodAsk, Host)> = new.collect();
        let before: Vec<(PodUid, NodeName)> = self
            .ledger
            .bookings()
            .map(|(pod, booking)| (pod.clone(), booking.node.clone()))
            .collect();
        let unsure = self.ledger.rebuild(bound);
        for (pod, node) in before {
            let now = self.ledger.booking(pod.as_str());
            if now.is_none_or(|booking| booking.node != node) {
                self.growth.room(node.as_str());
            }
        }
        let mut to_read = Vec::new();
        for uid in unsure {
            if let Some(pod) = self.pods.remove(&uid) {
                pods.entry(uid.clone()).or_insert(pod);
            }
            match self.booked(&uid) {
                // The answer to its bind comes first.
                Some(BookingState::Reserved) => {
                    self.attempts.entry(uid).or_default().missing = true
                }
                Some(BookingState::Settled) => to_read.push(uid),
                _ => {}
            }
        }
        let before = self.keep_only(pods);
        for gone in before.keys().filter(|pod| !self.pods.contains_key(*pod)) {
            self.lessons.remember(gone);
        }
        self.stop_waiting_unless_pending(|pod| before.contains_key(pod));
        self.replace_claims(claims);
        for node in &self.nodes {
            self.packing.redraw(&self.ledger, node);
        }
        // After that: the lesson looks at what is free.
        let new = new.iter().map(|(ask, host)| (ask, *host));
        self.packing.observe_all(new);
        let ledger = &self.ledger;
        self.attempts.retain(|uid, _| {
            let booking = ledger.booking(uid.as_str());
            booking.is_some_and(|booking| booking.state != BookingState::Confirmed)
        });
        self.outdate_all_reads();
        self.pods_listed = true;
        to_read
            .iter()
            .filter_map(|uid| self.reference(uid))
            .collect()
    }

    /// The booking that a bound pod proves. Once one was believed, it stays: the containers hold that
    /// card, whatever is written on the pod later.
    fn believed(&self, facts: &PodFacts) -> Option<Bound> {
        let node = facts.node.as_ref()?;
        let ask = facts.ask.as_ref().ok()?.as_ref()?;
        let held = self.ledger.booking(facts.uid.as_str()).filter(|booking| {
            booking.node == *node
                && matches!(
                    booking.state,
                    BookingState::Settled | BookingState::Confirmed
                )
        });
        let shown = facts.bound(self.ledger.classes());
        let Some(held) = held else {
            return match shown {
                Some(Ok(bound)) => Some(bound),
                Some(Err(error)) => self.report_unbooked(facts, &error.to_string()),
                None => self.report_unbooked(facts, "it carries no allocation record"),
            };
        };
        if !matches!(&shown, Some(Ok(shown)) if shown.placement == held.placement) {
            tracing::warn!(
                pod = %format_args!("{}/{}", facts.namespace, facts.name), uid = %facts.uid, %node,
                "the allocation record was changed after the bind; the first one stays booked"
            );
        }
        Some(Bound {
            pod: facts.uid.clone(),
            node: node.clone(),
            ask: ask.clone(),
            placement: held.placement.clone(),
        })
    }

    /// Says once that a bound pod is not booked: it was not bound by us, and its node's agent will not
    /// start it.
    fn report_unbooked(&self, facts: &PodFacts, reason: &str) -> Option<Bound> {
        let seen = self
            .pods
            .get(&facts.uid)
            .is_some_and(|pod| pod.node.is_some());
        if !seen {
            tracing::warn!(
                pod = %format_args!("{}/{}", facts.namespace, facts.name), uid = %facts.uid, reason,
                "a bound pod asks for a share of a card but is not booked"
            );
        }
        None
    }

    /// What is kept of a pod; nothing where its request makes no sense.
    fn known(&self, facts: PodFacts) -> Option<(PodUid, KnownPod)> {
        let ask = facts.ask.ok()??;
        // What a bound pod chose when it waited is known only from then, and the policy learned from it.
        let before = self.pods.get(&facts.uid).filter(|_| facts.node.is_some());
        let pod = KnownPod {
            namespace: facts.namespace,
            name: facts.name,
            version: facts.version,
            ask: before.map_or(ask, |before| before.ask.clone()),
            host: facts.host,
            node: facts.node,
            rank: facts.rank,
            created: facts.created,
            preemption: facts.preemption,
            set_aside: facts.deleting || facts.gated,
        };
        Some((facts.uid, pod))
    }
}
