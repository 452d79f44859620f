//! The nodes: what is booked on their cards, how the policy sees that, and when room has appeared. The three
//! change together, so they have one owner.

mod bookings;
pub(crate) mod growth;

use std::collections::BTreeSet;
use std::sync::Arc;

use gpushare_core::card::Card;
use gpushare_core::{Classes, HeldPod, Host, Ledger, NodeName, PodAsk};
use gpushare_kube::convert::PodFacts;
use gpushare_packing::{Packing, Policy, Rankings};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::node_set::NodeSet;
use growth::Growth;

/// A node as the watch shows it. A node whose cards cannot be read has none.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    pub name: NodeName,
    pub cards: Vec<Card>,
    /// What containers without pods still hold there, as the node's agent reports it.
    pub held: Vec<HeldPod>,
    pub allocatable: Host,
}

#[derive(Debug)]
pub struct Nodes {
    names: BTreeSet<NodeName>,
    ledger: Ledger,
    packing: Packing,
    /// Brought up to date by each query for the best node. The lock allows that while callers only read the
    /// books.
    rankings: Mutex<Rankings>,
    growth: Growth,
}

impl Nodes {
    pub(crate) fn new(classes: Classes, policy: Policy, wake: Arc<Notify>) -> Self {
        let class = classes.iter().next().map(|class| class.name.clone());
        Self {
            names: BTreeSet::new(),
            packing: Packing::new(policy, class),
            rankings: Mutex::default(),
            ledger: Ledger::new(classes),
            growth: Growth::new(wake),
        }
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The stored copy of the node's name, if the node is known.
    pub fn get(&self, name: &str) -> Option<&NodeName> {
        self.names.get(name)
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn growth(&self) -> &Growth {
        &self.growth
    }

    /// The candidate that packing prefers; `None` if it has no preference.
    pub fn best(
        &self,
        ask: Option<&PodAsk>,
        host: Host,
        is_candidate: impl FnMut(&str) -> bool,
    ) -> Option<&str> {
        let mut rankings = self.rankings.lock();
        self.packing
            .best_ranked(&mut rankings, ask, host, is_candidate)
    }

    /// Every node that the set holds; without a set, all of them.
    pub fn within(&self, set: Option<&NodeSet>) -> Vec<NodeName> {
        let inside = |node: &&NodeName| {
            let number = self.growth.number(node.as_str());
            set.is_none_or(|set| number.is_some_and(|number| set.contains(number)))
        };
        self.names.iter().filter(inside).cloned().collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &NodeName> {
        self.names.iter()
    }

    /// The numbers of the named nodes; unknown ones have none.
    pub(crate) fn numbered<'n>(&self, names: impl Iterator<Item = &'n str>) -> NodeSet {
        names.filter_map(|name| self.growth.number(name)).collect()
    }

    pub(crate) fn apply(&mut self, node: NodeFacts) {
        self.growth.add(&node.name);
        let changed = !self.has_just(&node);
        self.ledger.set_node(&node.name, node.cards);
        let ended = self.ledger.set_held(&node.name, node.held);
        if changed {
            self.growth.cards(node.name.as_str());
        }
        if ended {
            self.growth.room(node.name.as_str());
        }
        self.packing.set_allocatable(&node.name, node.allocatable);
        self.packing.redraw(&self.ledger, &node.name);
        self.names.insert(node.name);
    }

    /// Whether the node already has exactly these cards, in whatever order.
    fn has_just(&self, node: &NodeFacts) -> bool {
        let view = self.ledger.node(node.name.as_str());
        let rooms = view.map_or(&[][..], |view| view.rooms());
        let known = |card: &Card| rooms.iter().any(|room| room.card == *card);
        rooms.len() == node.cards.len() && node.cards.iter().all(known)
    }

    /// Removes the node. Returns its number, which another node may get.
    pub(crate) fn remove(&mut self, name: &str) -> Option<u32> {
        self.ledger.remove_node(name);
        self.packing.remove_node(name);
        self.names.remove(name);
        self.growth.remove(name)
    }

    /// Replaces the name of the pod's node by the stored copy, so that both share memory.
    pub(crate) fn share_name(&self, facts: &mut PodFacts) {
        let known = |node: &NodeName| self.names.get(node).cloned();
        if let Some(known) = facts.node.as_ref().and_then(known) {
            facts.node = Some(known);
        }
    }

    /// The pod that was woken for room on the node has not taken it.
    pub(crate) fn leave_room(&mut self, node: &NodeName) {
        self.growth.left(node.as_str());
    }
}
