//! What pods take of nodes: bookings and claims on cards, and what they take beside cards.

use gpushare_core::ledger::{Booking, BookingState, BoundPod};
use gpushare_core::room::CardRoom;
use gpushare_core::{Host, Ledger, NodeName, Placement, PodAsk, PodUid, Search, Steps, Why};
use gpushare_kube::convert::PodFacts;

use super::Nodes;

impl Nodes {
    pub(crate) fn is_booked(&self, pod: &PodUid) -> bool {
        self.ledger.booking(pod.as_str()).is_some()
    }

    pub(crate) fn booking_state(&self, pod: &PodUid) -> Option<BookingState> {
        let booking = self.ledger.booking(pod.as_str());
        booking.map(|booking| booking.state)
    }

    pub(crate) fn booked_node(&self, pod: &PodUid) -> Option<NodeName> {
        let booking = self.ledger.booking(pod.as_str());
        booking.map(|booking| booking.node.clone())
    }

    /// Chooses the pod's cards on the node and books them.
    pub(crate) fn reserve(
        &mut self,
        pod: &PodUid,
        ask: &PodAsk,
        host: Host,
        node: &NodeName,
    ) -> Result<Placement, Why> {
        let packing = &self.packing;
        let choose =
            |search: &Search<'_>, rooms: &[CardRoom]| packing.place(ask, host, node, search, rooms);
        let steps = Steps::for_request();
        let placement = self.ledger.reserve_with(pod, node, ask, &steps, choose)?;
        self.packing.set_pod(pod, Some((node, host)));
        self.packing.redraw(&self.ledger, node);
        Ok(placement)
    }

    /// The API server accepted the bind.
    pub(crate) fn settle(&mut self, pod: &PodUid) {
        self.ledger.settle(pod);
    }

    /// The outcome of the bind is unknown: it may still take effect.
    pub(crate) fn doubt(&mut self, pod: &PodUid) {
        self.ledger.doubt(pod);
    }

    /// Ends the pod's booking, and frees what it takes of its node.
    pub(crate) fn release(&mut self, pod: &PodUid) {
        let mut changed: Vec<NodeName> = self.booked_node(pod).into_iter().collect();
        self.ledger.release(pod);
        for node in &changed {
            self.growth.room(node.as_str());
        }
        changed.extend(self.packing.set_pod(pod, None));
        self.redraw(&changed);
    }

    /// Applies a pod as the API server shows it, with the booking that it proves. `book` enters that booking into the
    /// ledger. Returns the node on which the pod is booked now.
    pub(crate) fn place(
        &mut self,
        facts: &PodFacts,
        bound: Option<BoundPod>,
        book: fn(&mut Ledger, BoundPod),
    ) -> Option<NodeName> {
        let before = self.booked_node(&facts.uid);
        if let Some(bound) = bound {
            book(&mut self.ledger, bound);
        }
        let booked = self.booked_node(&facts.uid);
        // Until the watch shows the pod's node, the node of its booking counts.
        let node = facts.node.as_ref().or(booked.as_ref());
        let takes = node.map(|node| (node, facts.host));
        let mut changed = self.packing.set_pod(&facts.uid, takes);
        if booked != before {
            if let Some(left) = &before {
                self.growth.room(left.as_str());
            }
            changed.extend(before);
            changed.extend(booked.clone());
        }
        self.redraw(&changed);
        booked
    }

    /// A pod that asks for none of our devices takes this of a node.
    pub(crate) fn occupy(&mut self, pod: &PodUid, node: &NodeName, host: Host) {
        let changed = self.packing.set_pod(pod, Some((node, host)));
        self.redraw(&changed);
    }

    fn redraw(&mut self, nodes: &[NodeName]) {
        for node in nodes {
            self.packing.redraw(&self.ledger, node);
        }
    }

    /// Counts what these pods take, and no others. The caller must [redraw](Self::redraw_all) the nodes once the
    /// bookings are known, too.
    pub(crate) fn replace_occupants<'p>(
        &mut self,
        pods: impl Iterator<Item = (&'p PodUid, &'p NodeName, Host)>,
    ) {
        self.packing.clear_pods();
        for (pod, node, host) in pods {
            self.packing.set_pod(pod, Some((node, host)));
        }
    }

    /// Takes over a complete list of bookings. Returns the pods whose booking may be newer than the list.
    pub(crate) fn rebuild(&mut self, bound: Vec<BoundPod>) -> Vec<PodUid> {
        let node_of = |(pod, booking): (&PodUid, &Booking)| (pod.clone(), booking.node.clone());
        let before: Vec<(PodUid, NodeName)> = self.ledger.bookings().map(node_of).collect();
        let unsure = self.ledger.rebuild(bound);
        for (pod, node) in before {
            let now = self.ledger.booking(pod.as_str());
            if now.is_none_or(|booking| booking.node != node) {
                self.growth.room(node.as_str());
            }
        }
        unsure
    }

    pub(crate) fn redraw_all(&mut self) {
        for node in &self.names {
            self.packing.redraw(&self.ledger, node);
        }
    }

    /// Keeps room for the pod.
    pub(crate) fn claim(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        ask: &PodAsk,
        placement: Placement,
    ) {
        self.ledger.claim(pod, node, ask, placement);
        self.packing.redraw(&self.ledger, node);
    }

    /// Gives the room back that is claimed for the pod on this node.
    pub(crate) fn unclaim(&mut self, pod: &PodUid, node: &NodeName) {
        self.ledger.unclaim(pod);
        self.packing.redraw(&self.ledger, node);
        self.growth.room(node.as_str());
    }

    /// The policy learns from a request that is new.
    pub(crate) fn observe(&mut self, ask: &PodAsk, host: Host) {
        self.packing.observe(ask, host);
    }

    pub(crate) fn observe_all<'p>(&mut self, requests: impl Iterator<Item = (&'p PodAsk, Host)>) {
        self.packing.observe_all(requests);
    }

    pub(crate) fn observe_end(&mut self, ask: &PodAsk, host: Host) {
        self.packing.observe_end(ask, host);
    }

    #[cfg(test)]
    pub(crate) fn forget_held(&mut self, node: &NodeName) {
        self.ledger.set_held(node, Vec::new());
    }
}
