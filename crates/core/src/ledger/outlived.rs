//! Containers that outlive their pods: what they hold stays booked for as long as the node agent reports them.
//!
//! What the API server says about a pod comes first: while the pod is booked by its record, the agent's report about it
//! is only stored. If the agent still reports the pod when that booking ends, an outlived booking takes its place.

use std::collections::BTreeMap;

use super::{Booking, BookingState, Ledger, Node};
use crate::held::HeldPod;
use crate::ids::{NodeName, PodUid};
use crate::placement::Placement;

impl Ledger {
    /// Replaces the node agent's report about containers without pods. Returns whether an outlived booking ended or
    /// changed, so that room may have become free.
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

    /// The node agent's report about a pod that its containers have outlived.
    pub fn outlived(&self, pod: &str) -> Option<&HeldPod> {
        let booking = self.bookings.get(pod)?;
        let outlived = booking.state == BookingState::Outlived;
        let node = self.nodes.get(&booking.node).filter(|_| outlived)?;
        node.held.get(pod)
    }

    /// Books the pods that the node agent reports and that are not booked.
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
                // Which container holds what no longer matters, because none of them starts again.
                placement: Placement {
                    containers: Vec::new(),
                },
                state: BookingState::Outlived,
                charges: held.charges,
            };
            self.enter(&held.pod, booking);
        }
    }

    /// Drops the agent's report, because its node is gone.
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
            .is_some_and(|booking| booking.state == BookingState::Outlived && booking.node == *node)
    }
}
