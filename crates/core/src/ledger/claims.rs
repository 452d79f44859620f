//! Claims: room kept for a pod while the pods that hold it are still ending.
//!
//! A claim counts against its cards for every pod but its own, from the moment it is made and even past
//! a card's size. Its pod fits there once the other pods are gone, and is booked on the claimed cards
//! if they can take it. While the pod is booked on the claim's node, the booking counts instead; if
//! that booking ends, the claim counts again.

use std::sync::Arc;

use super::{Ledger, Node, each_room};
use crate::ids::{NodeName, PodUid};
use crate::placement::{Charges, Hold, Placement};
use crate::request::PodAsk;
use crate::room::CardRoom;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub node: NodeName,
    pub placement: Placement,
    pub(super) charges: Charges,
}

impl Ledger {
    /// Keeps this placement's room for the pod; replaces an earlier claim of the pod.
    pub fn claim(&mut self, pod: &PodUid, node: &NodeName, ask: &PodAsk, placement: Placement) {
        self.unclaim(pod);
        let claim = Claim {
            node: node.clone(),
            charges: placement.charges(ask),
            placement,
        };
        let entry = self.nodes.entry(node.clone()).or_default();
        entry.claims.insert(pod.clone());
        self.claims.insert(pod.clone(), claim);
        self.resume_claim(pod);
    }

    pub fn unclaim(&mut self, pod: &PodUid) -> bool {
        self.suspend_claim(pod);
        let Some(claim) = self.claims.remove(pod) else {
            return false;
        };
        if let Some(node) = self.nodes.get_mut(&claim.node) {
            node.claims.remove(pod);
            if node.is_forgotten() {
                self.nodes.remove(&claim.node);
            }
        }
        true
    }

    pub fn claimed(&self, pod: &str) -> Option<&Claim> {
        self.claims.get(pod)
    }

    /// Every claim, in the order of pod uids.
    pub fn claims(&self) -> impl Iterator<Item = (&PodUid, &Claim)> {
        self.claims.iter()
    }

    /// The node's cards as they would be without these pods' claims.
    pub fn rooms_without_claims(
        &self,
        node: &str,
        without: impl Fn(&PodUid) -> bool,
    ) -> Vec<CardRoom> {
        let Some(node) = self.nodes.get(node) else {
            return Vec::new();
        };
        let mut rooms = node.cards.clone();
        let ending = node.claims.iter().filter(|pod| without(pod));
        for claim in ending.filter_map(|pod| self.counting_claim(pod)) {
            each_room(&mut rooms, &claim.charges, CardRoom::unclaim);
        }
        Arc::unwrap_or_clone(rooms)
    }

    /// The pod's claim on this node, unless its booking counts instead.
    pub(super) fn claim_on(&self, node: &str, pod: &PodUid) -> Option<&Claim> {
        self.counting_claim(pod)
            .filter(|claim| claim.node.as_str() == node)
    }

    fn counting_claim(&self, pod: &PodUid) -> Option<&Claim> {
        let claim = self.claims.get(pod)?;
        let booking = self.bookings.get(pod);
        (booking.is_none_or(|booking| booking.node != claim.node)).then_some(claim)
    }

    /// Call it before the pod is booked on the claim's node.
    pub(super) fn suspend_claim(&mut self, pod: &PodUid) {
        self.change_claim(pod, CardRoom::unclaim);
    }

    /// Call it after a booking of the pod on the claim's node has ended.
    pub(super) fn resume_claim(&mut self, pod: &PodUid) {
        self.change_claim(pod, CardRoom::claim);
    }

    fn change_claim(&mut self, pod: &PodUid, change: fn(&mut CardRoom, &Hold)) {
        let Some(claim) = self.counting_claim(pod) else {
            return;
        };
        let (node, charges) = (claim.node.clone(), claim.charges.clone());
        if let Some(node) = self.nodes.get_mut(&node) {
            each_room(&mut node.cards, &charges, change);
        }
        self.journal.enter(node);
    }

    /// Counts the claims on a node whose inventory was just replaced.
    pub(super) fn count_claims(&mut self, node: &NodeName) {
        let pods = self.nodes.get(node).map(|node| node.claims.clone());
        for pod in pods.iter().flatten() {
            self.resume_claim(pod);
        }
    }
}

impl Claim {
    /// Whether these cards can take the claim now. They must not count the claim itself.
    pub(super) fn fits(&self, rooms: &[CardRoom]) -> bool {
        self.charges.iter().all(|(id, hold)| {
            let room = rooms.iter().find(|room| room.card.id == *id);
            room.is_some_and(|room| room.card.healthy && room.has(hold))
        })
    }
}

impl Node {
    /// Whether the books have nothing left about this node.
    pub(super) fn is_forgotten(&self) -> bool {
        let unused = self.pods.is_empty() && self.claims.is_empty() && self.held.is_empty();
        self.cards.is_empty() && unused
    }
}
