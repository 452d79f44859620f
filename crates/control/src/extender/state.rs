//! What the extender knows: the ledger, and an index of the pods and nodes that matter.
//!
//! Plain synchronous methods, one per thing that can happen. No clock, no network, no lock: callers
//! bring the time and hold the lock. The API server's word (watch and reads) always wins over what
//! binds in progress believe, with one exception: a record that was believed once is not exchanged for
//! another one on the same node, because the containers already hold the first card.

mod binds;
mod packing;
mod pods;
mod reads;

use std::collections::{BTreeSet, HashMap};

use gpushare_core::card::Card;
use gpushare_core::pack::Policy;
use gpushare_core::{Classes, Host, Ledger, NodeName, PodAsk, PodUid};

pub(crate) use binds::{Followup, Reservation};
pub(crate) use packing::Packing;
pub(crate) use reads::Verdict;

/// A pod that asks for our devices and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct KnownPod {
    pub namespace: String,
    pub name: String,
    pub ask: PodAsk,
    pub host: Host,
    pub node: Option<NodeName>,
}

/// A pod to be read from the API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRef {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
}

/// A node as the watch shows it; cards that cannot be read are none.
#[derive(Clone, Debug)]
pub(crate) struct NodeFacts {
    pub name: NodeName,
    pub cards: Vec<Card>,
    pub allocatable: Host,
}

#[derive(Debug)]
pub(crate) struct State {
    ledger: Ledger,
    packing: Packing,
    pods: HashMap<PodUid, KnownPod>,
    nodes: BTreeSet<NodeName>,
    attempts: HashMap<PodUid, binds::Attempts>,
    reads: HashMap<PodUid, reads::Open>,
    nodes_listed: bool,
    pods_listed: bool,
}

impl State {
    pub(crate) fn new(classes: Classes, policy: Policy) -> Self {
        let class = classes.iter().next().map(|class| class.name.clone());
        Self {
            packing: Packing::new(policy, class),
            ledger: Ledger::new(classes),
            pods: HashMap::new(),
            nodes: BTreeSet::new(),
            attempts: HashMap::new(),
            reads: HashMap::new(),
            nodes_listed: false,
            pods_listed: false,
        }
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn pod(&self, uid: &str) -> Option<&KnownPod> {
        self.pods.get(uid)
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// What is missing before answers can be given.
    pub(crate) fn ready(&self) -> Result<(), &'static str> {
        match (self.nodes_listed, self.pods_listed) {
            (true, true) => Ok(()),
            (false, _) => Err("nodes are not listed yet"),
            (_, false) => Err("pods are not listed yet"),
        }
    }

    pub(crate) fn apply_node(&mut self, node: NodeFacts) {
        self.ledger.set_node(&node.name, node.cards);
        self.packing.set_allocatable(&node.name, node.allocatable);
        self.packing.redraw(&self.ledger, &node.name);
        self.nodes.insert(node.name);
    }

    pub(crate) fn delete_node(&mut self, name: &str) {
        self.ledger.remove_node(name);
        self.packing.remove_node(name);
        self.nodes.remove(name);
    }

    pub(crate) fn replace_nodes(&mut self, mut listed: Vec<NodeFacts>) {
        // In the order of names packing takes over each node at its end.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let names: BTreeSet<NodeName> = listed.iter().map(|node| node.name.clone()).collect();
        for gone in std::mem::take(&mut self.nodes).difference(&names) {
            self.ledger.remove_node(gone.as_str());
            self.packing.remove_node(gone.as_str());
        }
        for node in listed {
            self.apply_node(node);
        }
        self.nodes_listed = true;
    }
}

#[cfg(test)]
mod tests;
