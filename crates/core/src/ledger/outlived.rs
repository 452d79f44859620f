//! Containers that outlive their pods: what they hold stays booked for as long as the node's agent tells so.
//!
//! The word of the API server about a pod comes first: as long as the pod is booked by its record, what the agent tells of
//! it is only kept. When that booking ends, and the agent still tells of the pod, an outlived booking takes its place.

use std::collections::BTreeMap;

use super::{Booking, Ledger, Node, State};
use crate::held::HeldPod;
use crate::ids::{NodeName, PodUid};
use crate::placement::Placement;

impl Ledger {
    /// Takes over what the node's agent tells of containers without pods. Returns whether less is booked for them than
    /// before.
    pub fn set_held(&mut self, name: &NodeName, held: Vec<HeldPod>) -> bool {
        let told: BTreeMap<PodUid, HeldPod> = held
            .into_iter()
            .map(|held| (held.pod.clone(), held))
            .collect();
        let before = match self.nodes.get_mut(name) {
            Some(node) if node.held == told => return false,
            Some(node) => std::mem::replace(&mut node.held, told),
            None if told.is_empty() => return false,
            None => {
                let node = self.nodes.entry(name.clone()).or_default();
                std::mem::replace(&mut node.held, told)
            }
        };
        let mut ended = false;
        for (pod, was) in &before {
            let now = self.nodes.get(name).and_then(|node| node.held.get(pod));
            let (same, gone) = (now == Some(was), now.is_none());
            if gone && self.told.get(pod) == Some(name) {
                self.told.remove(pod);
            }
            if !same && self.is_outlived_on(name, pod) {
                ended = true;
                self.remove(pod);
            }
        }
        let now = self.nodes.get(name).into_iter();
        let now = now.flat_map(|node| node.held.keys().cloned());
        self.told.extend(now.map(|pod| (pod, name.clone())));
        self.book_outlived(name);
        if self.nodes.get(name).is_some_and(Node::is_forgotten) {
            self.nodes.remove(name);
        }
        ended
    }

    /// What the node's agent calls a pod whose containers have outlived it.
    pub fn outlived(&self, pod: &str) -> Option<&HeldPod> {
        let booking = self.bookings.get(pod)?;
        let outlived = booking.state == State::Outlived;
        let node = self.nodes.get(&booking.node).filter(|_| outlived)?;
        node.held.get(pod)
    }

    /// Books whatever the node's agent tells of pods that are not booked.
    pub(super) fn book_outlived(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get(name) else {
            return;
        };
        let unbooked = node.held.values();
        let unbooked: Vec<HeldPod> = unbooked
            .filter(|held| !self.bookings.contains_key(&held.pod))
            .cloned()
            .collect();
        for held in unbooked {
            let booking = Booking {
                node: name.clone(),
                // Which container holds what does not matter any more: none of them starts again.
                placement: Placement {
                    containers: Vec::new(),
                },
                state: State::Outlived,
                charges: held.charges,
            };
            self.enter(&held.pod, booking);
        }
    }

    /// The node is gone, and its agent's word with it.
    pub(super) fn forget_held(&mut self, name: &NodeName) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        for pod in std::mem::take(&mut node.held).into_keys() {
            if self.told.get(&pod) == Some(name) {
                self.told.remove(&pod);
            }
            if self.is_outlived_on(name, &pod) {
                self.remove(&pod);
            }
        }
    }

    fn is_outlived_on(&self, node: &NodeName, pod: &PodUid) -> bool {
        self.bookings
            .get(pod)
            .is_some_and(|booking| booking.state == State::Outlived && booking.node == *node)
    }
}
