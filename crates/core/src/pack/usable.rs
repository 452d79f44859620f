//! Usable room: how much of a node's free cards the pods to come could use.
//!
//! For each shape of the mix the node counts with all its cards that admit the shape, if they are as
//! many as the shape needs and the CPU suffices; else with nothing. The average over the mix is the
//! node's usable room. Shapes that differ only in CPU share a group, so that a change of one card is
//! worked out once for all of them.

use super::pool::PoolSet;
use super::shape::{Shape, Want};
use super::space::{CardRoom, Space};

/// Shapes alike in what they want of cards, with the CPU they need.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    cards: u32,
    want: Want,
    pools: PoolSet,
    /// By CPU: how much weight needs at most that much.
    weight_up_to: Vec<(i64, i64)>,
}

impl Group {
    fn admits(&self, card: &CardRoom) -> bool {
        self.pools.contains(card.pool) && card.admits(&self.want)
    }

    fn weight_at(&self, cpu: i64) -> i64 {
        self.weight_up_to
            .iter()
            .take_while(|(needed, _)| *needed <= cpu)
            .last()
            .map_or(0, |(_, weight)| *weight)
    }
}

/// Cards of one node that admit one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    cards: u32,
    room: i64,
}

impl Tally {
    fn add(&mut self, card: &CardRoom) {
        self.cards += 1;
        self.room += card.room();
    }

    fn remove(&mut self, card: &CardRoom) {
        self.cards = self.cards.saturating_sub(1);
        self.room -= card.room();
    }
}

/// The groups of a mix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Usable {
    groups: Vec<Group>,
    /// The weight of all shapes, those without cards included.
    pub(super) weight: i64,
}

impl Usable {
    pub(super) fn new(shapes: impl IntoIterator<Item = (Shape, i64)>) -> Self {
        let mut shapes: Vec<(Shape, i64)> = shapes.into_iter().collect();
        shapes.sort_unstable_by_key(|(shape, _)| (shape.cards, shape.want, shape.pools, shape.cpu));
        let mut usable = Self::default();
        for (shape, weight) in shapes {
            usable.weight += weight;
            if shape.cards > 0 {
                usable.insert(&shape, weight);
            }
        }
        usable
    }

    fn insert(&mut self, shape: &Shape, weight: i64) {
        match self.groups.last_mut() {
            Some(last)
                if (last.cards, last.want, last.pools)
                    == (shape.cards, shape.want, shape.pools) =>
            {
                let below = last.weight_up_to.last().map_or(0, |(_, weight)| *weight);
                last.weight_up_to.push((shape.cpu, below + weight));
            }
            _ => self.groups.push(Group {
                cards: shape.cards,
                want: shape.want,
                pools: shape.pools,
                weight_up_to: vec![(shape.cpu, weight)],
            }),
        }
    }

    pub(super) fn tallies(&self, space: &Space) -> Vec<Tally> {
        self.groups
            .iter()
            .map(|group| {
                let mut tally = Tally::default();
                for card in space.cards().iter().filter(|card| group.admits(card)) {
                    tally.add(card);
                }
                tally
            })
            .collect()
    }

    /// Grains times [`Self::weight`].
    pub(super) fn now(&self, tallies: &[Tally], cpu: i64) -> i64 {
        self.after(tallies, cpu, &[])
    }

    /// What stays usable when cards become smaller, given as they are before and after.
    pub(super) fn after(&self, tallies: &[Tally], cpu: i64, cards: &[(CardRoom, CardRoom)]) -> i64 {
        let mut usable = 0;
        for (group, tally) in self.groups.iter().zip(tallies) {
            if tally.cards < group.cards {
                continue;
            }
            let mut tally = *tally;
            for (before, after) in cards {
                if group.admits(before) {
                    tally.remove(before);
                    if group.admits(after) {
                        tally.add(after);
                    }
                }
            }
            if tally.cards >= group.cards && tally.room > 0 {
                usable += tally.room * group.weight_at(cpu);
            }
        }
        usable
    }
}
