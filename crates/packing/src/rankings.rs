//! Rankings: in which order the nodes of a fleet suit a shape, kept from one request to the next.
//!
//! Many pods are equal, and few nodes change between two of them. So the order is kept and only the
//! nodes that changed are judged again. The choice is the same as that of [`Fleet::choose_by`].

use std::collections::BTreeSet;

use super::fleet::{Bookmark, Fleet, Key, Pick};
use super::policy::Policy;
use super::shape::Shape;
use super::space::CardSet;

/// Rankings kept, about half a megabyte each in a cluster of 5,000 nodes.
const KEPT: usize = 8;

/// Rankings of one fleet, for the most recently requested shapes.
#[derive(Debug, Default)]
pub struct Rankings {
    /// The one used last is at the end.
    kept: Vec<Ranking>,
}

#[derive(Debug)]
struct Ranking {
    policy: &'static str,
    shape: Shape,
    read: Bookmark,
    order: BTreeSet<(Key, Pick)>,
    /// By the place of the node.
    nodes: Vec<Option<(Key, CardSet)>>,
}

impl Rankings {
    /// The best placement on a node that is `wanted`. Nodes are tried best first, so `wanted` is called
    /// for few of them.
    pub fn best(
        &mut self,
        fleet: &Fleet,
        policy: &Policy,
        shape: &Shape,
        mut wanted: impl FnMut(&str) -> bool,
    ) -> Option<Pick> {
        let ranking = self.ranking(fleet, policy, shape)?;
        let mut picks = ranking.order.iter().map(|(_, pick)| *pick);
        picks.find(|pick| {
            fleet
                .name(pick.node)
                .is_some_and(|name| wanted(name.as_str()))
        })
    }

    fn ranking(&mut self, fleet: &Fleet, policy: &Policy, shape: &Shape) -> Option<&Ranking> {
        let known = |kept: &Ranking| kept.policy == policy.name && kept.shape == *shape;
        let ranking = match self.kept.iter().position(known) {
            Some(place) => {
                let mut ranking = self.kept.remove(place);
                ranking.catch_up(fleet, policy);
                ranking
            }
            None => Ranking::draw(fleet, policy, shape),
        };
        if self.kept.len() == KEPT {
            self.kept.remove(0);
        }
        self.kept.push(ranking);
        self.kept.last()
    }
}

impl Ranking {
    fn draw(fleet: &Fleet, policy: &Policy, shape: &Shape) -> Self {
        let mut nodes = vec![None; fleet.len()];
        let judged = fleet.judge_each(policy, shape, 0..fleet.len());
        let mut order = Vec::new();
        for (key, pick) in judged {
            if let Some(node) = nodes.get_mut(pick.node) {
                *node = Some((key, pick.cards));
            }
            order.push((key, pick));
        }
        Self {
            policy: policy.name,
            shape: *shape,
            read: fleet.bookmark(),
            order: order.into_iter().collect(),
            nodes,
        }
    }

    fn catch_up(&mut self, fleet: &Fleet, policy: &Policy) {
        let Some(changed) = fleet.changed_since(self.read) else {
            *self = Self::draw(fleet, policy, &self.shape);
            return;
        };
        let changed: BTreeSet<usize> = changed.collect();
        if changed.is_empty() {
            return;
        }
        for node in &changed {
            if let Some((key, cards)) = self.nodes.get_mut(*node).and_then(Option::take) {
                self.order.remove(&(key, Pick { node: *node, cards }));
            }
        }
        for (key, pick) in fleet.judge_each(policy, &self.shape, changed) {
            if let Some(node) = self.nodes.get_mut(pick.node) {
                *node = Some((key, pick.cards));
                self.order.insert((key, pick));
            }
        }
        self.read = fleet.bookmark();
    }
}
