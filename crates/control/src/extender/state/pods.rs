//! Pod events: what the watch shows becomes bookings.

use std::collections::HashMap;

use gpushare_core::PodUid;
use gpushare_core::ledger::{Bound, State as Booked};
use gpushare_kube::convert::PodFacts;

use super::{KnownPod, PodRef, State};

impl State {
    /// The pod as it is now. Pods that ask for nothing of ours, or for something invalid, are not kept.
    pub(crate) fn apply_pod(&mut self, facts: PodFacts) {
        if facts.ended {
            self.end_pod(&facts.uid);
            return;
        }
        let bound = self.believed(&facts);
        if let Some(bound) = bound {
            self.ledger.confirm(bound);
            self.attempts.remove(&facts.uid);
        }
        if let Some((uid, pod)) = known(facts) {
            self.pods.insert(uid, pod);
        }
    }

    /// The pod's containers have ended, or the pod is gone.
    pub(crate) fn end_pod(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
        self.forget_booking(pod);
        if let Some(open) = self.reads.get_mut(pod) {
            open.stale = true;
        }
    }

    /// A complete list of pods. Returns those to be read one by one, because their booking is newer
    /// than the list or their pod is gone.
    pub(crate) fn replace_pods(&mut self, listed: Vec<PodFacts>) -> Vec<PodRef> {
        let mut pods = HashMap::new();
        let mut bound = Vec::new();
        for facts in listed.into_iter().filter(|facts| !facts.ended) {
            bound.extend(self.believed(&facts));
            pods.extend(known(facts));
        }
        let unsure = self.ledger.rebuild(bound);
        let mut to_read = Vec::new();
        for uid in unsure {
            if let Some(pod) = self.pods.remove(&uid) {
                pods.entry(uid.clone()).or_insert(pod);
            }
            match self.booked(&uid) {
                // Its outcome comes with the answer to the bind; only a success needs a look then.
                Some(Booked::Reserved) => self.attempts.entry(uid).or_default().unlisted = true,
                Some(Booked::Settled) => to_read.push(uid),
                _ => {}
            }
        }
        self.pods = pods;
        let ledger = &self.ledger;
        self.attempts.retain(|uid, _| {
            let booking = ledger.booking(uid.as_str());
            booking.is_some_and(|booking| booking.state != Booked::Confirmed)
        });
        for open in self.reads.values_mut() {
            open.stale = true;
        }
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
            booking.node == *node && matches!(booking.state, Booked::Settled | Booked::Confirmed)
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
}

fn known(facts: PodFacts) -> Option<(PodUid, KnownPod)> {
    let ask = facts.ask.ok()??;
    let pod = KnownPod {
        namespace: facts.namespace,
        name: facts.name,
        ask,
        node: facts.node,
    };
    Some((facts.uid, pod))
}
