//! What the scheduler knows about nodes and what is taken on them, including pods that it has placed but not yet seen
//! bound. Pure: the scheduler reports every change to it, and queries it for hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpushare_kube::totals::{self, Totals};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;

use super::fit::{self, Host};

#[derive(Debug, Default)]
pub(super) struct Cluster {
    hosts: BTreeMap<String, Host>,
    /// Pods that take room, by uid.
    placed: BTreeMap<String, PlacedPod>,
    /// Their uids by node.
    by_node: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug)]
pub(super) struct PlacedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) node: String,
    asked: Totals,
}

impl Cluster {
    /// Returns whether the node is new or has changed: a reason to retry waiting pods.
    pub(super) fn set_node(&mut self, node: Arc<Node>) -> bool {
        let name = node.name_any();
        let room = totals::allocatable(&node);
        if let Some(host) = self.hosts.get_mut(&name) {
            let changed = host.room != room
                || host.node.spec != node.spec
                || host.node.metadata.labels != node.metadata.labels;
            host.room = room;
            host.node = node;
            return changed;
        }
        let mut taken = Totals::new();
        for placed in self.on_node(&name) {
            fit::add(&mut taken, &placed.asked);
        }
        self.hosts.insert(name, Host { node, room, taken });
        true
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.hosts.remove(name);
    }

    /// Counts a pod on a node; calling it again changes nothing.
    pub(super) fn place(&mut self, pod: &Arc<Pod>, node: &str) {
        let uid = pod.uid().unwrap_or_default();
        if let Some(placed) = self.placed.get_mut(&uid) {
            placed.pod = Arc::clone(pod);
            if placed.node == node {
                return;
            }
        }
        self.remove(&uid);
        let asked = fit::requests(pod);
        if let Some(host) = self.hosts.get_mut(node) {
            fit::add(&mut host.taken, &asked);
        }
        let there = self.by_node.entry(node.to_owned()).or_default();
        there.insert(uid.clone());
        self.placed.insert(
            uid,
            PlacedPod {
                pod: Arc::clone(pod),
                node: node.to_owned(),
                asked,
            },
        );
    }

    /// Stops counting the pod. Returns whether it was counted.
    pub(super) fn remove(&mut self, uid: &str) -> bool {
        let Some(placed) = self.placed.remove(uid) else {
            return false;
        };
        if let Some(there) = self.by_node.get_mut(&placed.node) {
            there.remove(uid);
        }
        if let Some(host) = self.hosts.get_mut(&placed.node) {
            fit::take(&mut host.taken, &placed.asked);
        }
        true
    }

    pub(super) fn hosts(&self) -> impl Iterator<Item = (&String, &Host)> {
        self.hosts.iter()
    }

    pub(super) fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.get(name)
    }

    pub(super) fn len(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn on_node(&self, node: &str) -> impl Iterator<Item = &PlacedPod> {
        let uids = self.by_node.get(node).into_iter().flatten();
        uids.filter_map(|uid| self.placed.get(uid))
    }

    pub(super) fn pod(&self, uid: &str) -> Option<&Arc<Pod>> {
        self.placed.get(uid).map(|placed| &placed.pod)
    }
}

impl PlacedPod {
    pub(super) fn asked(&self) -> &Totals {
        &self.asked
    }
}
