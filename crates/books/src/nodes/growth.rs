//! Where and when room has appeared, by a logical clock.
//!
//! Each growth gets a moment, and so does each refusal. This distinguishes room that appeared after a
//! pod was refused from room that the refusal already counted, however late the refusal is recorded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use foldhash::fast::RandomState;
use gpushare_core::NodeName;
use tokio::sync::Notify;

/// Larger is later.
pub type Moment = u64;

#[derive(Debug)]
pub(crate) struct Growth {
    now: Moment,
    nodes: HashMap<NodeName, NodeGrowth, RandomState>,
    /// Every node that has grown, by the moment of its last growth.
    latest: BTreeMap<Moment, NodeName>,
    free_numbers: Vec<u32>,
    /// Rung whenever a waiting pod may fit.
    bell: Arc<Notify>,
}

/// A node, and when it grew.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NodeGrowth {
    /// Small, and reused for another node when this one is gone.
    pub(crate) number: u32,
    /// When something that was held there was released.
    pub(crate) room: Moment,
    /// When its cards changed, or it appeared: pods that could not use it before may be able to now.
    pub(crate) cards: Moment,
    /// When a woken pod did not take the room that it was expected to take. This is nothing new for the
    /// scheduler, but the pods next in turn were not woken for that room.
    pub(crate) left: Moment,
}

impl Growth {
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self {
            now: 0,
            nodes: HashMap::default(),
            latest: BTreeMap::new(),
            free_numbers: Vec::new(),
            bell,
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    pub(crate) fn number(&self, node: &str) -> Option<u32> {
        self.nodes.get(node).map(|grown| grown.number)
    }

    pub(crate) fn add(&mut self, node: &NodeName) {
        if self.nodes.contains_key(node) {
            return;
        }
        let next = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let number = self.free_numbers.pop().unwrap_or(next);
        let grown = NodeGrowth {
            number,
            ..NodeGrowth::default()
        };
        self.nodes.insert(node.clone(), grown);
    }

    /// The node is gone; its number is free from now on.
    pub(crate) fn remove(&mut self, node: &str) -> Option<u32> {
        let grown = self.nodes.remove(node)?;
        self.latest.remove(&grown.last());
        self.free_numbers.push(grown.number);
        Some(grown.number)
    }

    pub(crate) fn room(&mut self, node: &str) {
        self.grow(node, |grown, now| grown.room = now);
    }

    pub(crate) fn left(&mut self, node: &str) {
        self.grow(node, |grown, now| grown.left = now);
    }

    pub(crate) fn cards(&mut self, node: &str) {
        self.grow(node, |grown, now| grown.cards = now);
    }

    fn grow(&mut self, node: &str, set: impl FnOnce(&mut NodeGrowth, Moment)) {
        let Some((name, _)) = self.nodes.get_key_value(node) else {
            return;
        };
        let name = name.clone();
        let Some(grown) = self.nodes.get_mut(node) else {
            return;
        };
        self.now += 1;
        self.latest.remove(&grown.last());
        set(grown, self.now);
        self.latest.insert(self.now, name);
        self.bell.notify_one();
    }

    /// The nodes that have grown after the moment, the earliest growth first.
    pub(crate) fn since(&self, moment: Moment) -> impl Iterator<Item = (&NodeName, &NodeGrowth)> {
        let later = self.latest.range(moment.saturating_add(1)..);
        later.filter_map(|(_, name)| self.nodes.get_key_value(name))
    }

    /// Rings if anything has grown after the moment.
    pub(crate) fn ring_since(&self, moment: Moment) {
        if self.since(moment).next().is_some() {
            self.bell.notify_one();
        }
    }
}

impl NodeGrowth {
    pub(crate) fn last(&self) -> Moment {
        self.room.max(self.cards).max(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(nodes: &[&str]) -> Growth {
        let mut growth = Growth::new(Arc::default());
        for node in nodes {
            growth.add(&NodeName::new(node));
        }
        growth
    }

    fn since(growth: &Growth, moment: Moment) -> Vec<&str> {
        growth
            .since(moment)
            .map(|(name, _)| name.as_str())
            .collect()
    }

    #[test]
    fn a_node_is_told_once_by_its_last_growth() {
        let mut growth = growth(&["a", "b"]);
        growth.cards("a");
        growth.cards("b");
        let before = growth.now();
        growth.room("a");
        assert_eq!(since(&growth, 0), ["b", "a"]);
        assert_eq!(since(&growth, before), ["a"]);
        assert!(since(&growth, growth.now()).is_empty());
    }

    #[test]
    fn numbers_of_nodes_that_are_gone_are_used_again_and_their_growth_is_forgotten() {
        let mut growth = growth(&["a", "b"]);
        growth.room("a");
        let freed = growth.remove("a");
        growth.room("a");
        assert!(since(&growth, 0).is_empty());
        growth.add(&NodeName::new("c"));
        growth.add(&NodeName::new("d"));
        assert_eq!(growth.number("c"), freed);
        let mut numbers: Vec<_> = ["b", "c", "d"].map(|node| growth.number(node)).into();
        numbers.sort_unstable();
        assert_eq!(numbers, [Some(0), Some(1), Some(2)]);
    }
}
