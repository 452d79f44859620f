//! Usable room: how much of a node's free cards future pods could use.
//!
//! For each shape of the mix, the node counts with the free room of all its cards that admit the shape,
//! if they are as many as the shape needs and the CPU suffices; otherwise with zero. The average over
//! the mix is the node's usable room. Shapes that differ only in CPU share a group, so that a change of
//! one card is computed once for all of them.

use super::pool::PoolSet;
use super::shape::{Shape, Want};
use super::space::{CardRoom, Remainder, Space};

/// A card, and what is left of it after a pod arrives.
pub(super) type Cut<'a> = (&'a CardRoom, Remainder);

/// A shape, its weight, and its part of the demand; both in units of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WeightedShape {
    pub(super) shape: Shape,
    pub(super) weight: i64,
    pub(super) demand: i64,
}

/// Shapes that want the same of cards, with the CPU they need.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    cards: u32,
    want: Want,
    pools: PoolSet,
    demand: i64,
    /// For each amount of CPU, the weight of the shapes that need at most that much.
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

    fn tally(&self, space: &Space) -> Tally {
        let mut tally = Tally::default();
        for card in space.cards().iter().filter(|card| self.admits(card)) {
            tally.add(card.room());
        }
        tally
    }

    /// The room that the least demanding shape of the group could use.
    fn supply(&self, space: &Space) -> i64 {
        let tally = self.tally(space);
        let suffices = self.weight_at(space.cpu) > 0 && tally.cards >= self.cards;
        if suffices { tally.room } else { 0 }
    }
}

/// Cards of one node that admit one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    cards: u32,
    room: i64,
}

impl Tally {
    fn add(&mut self, room: i64) {
        self.cards += 1;
        self.room += room;
    }

    fn remove(&mut self, room: i64) {
        self.cards = self.cards.saturating_sub(1);
        self.room -= room;
    }
}

/// The groups of a mix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShapeGroups {
    groups: Vec<Group>,
    /// The weight of all shapes, those without cards included.
    pub(super) weight: i64,
}

impl ShapeGroups {
    pub(super) fn new(shapes: impl IntoIterator<Item = WeightedShape>) -> Self {
        let mut shapes: Vec<WeightedShape> = shapes.into_iter().collect();
        shapes.sort_unstable_by_key(|WeightedShape { shape, .. }| {
            (shape.cards, shape.want, shape.pools, shape.cpu)
        });
        let mut usable = Self::default();
        for weighed in shapes {
            usable.weight += weighed.weight;
            if weighed.shape.cards > 0 {
                usable.insert(&weighed);
            }
        }
        usable
    }

    fn insert(&mut self, weighed: &WeightedShape) {
        let shape = &weighed.shape;
        match self.groups.last_mut() {
            Some(last)
                if (last.cards, last.want, last.pools)
                    == (shape.cards, shape.want, shape.pools) =>
            {
                let below = last.weight_up_to.last().map_or(0, |(_, weight)| *weight);
                last.weight_up_to.push((shape.cpu, below + weighed.weight));
                last.demand += weighed.demand;
            }
            _ => self.groups.push(Group {
                cards: shape.cards,
                want: shape.want,
                pools: shape.pools,
                demand: weighed.demand,
                weight_up_to: vec![(shape.cpu, weighed.weight)],
            }),
        }
    }

    /// Scales the weight of shapes that need several cards by how scarce the room for them is: by a
    /// half if there is ample room, and by up to four if there is only a quarter of what their part of
    /// the demand will fill. `demand` is the demand of all shapes, and `free` the grains that all
    /// shapes will fill.
    pub(super) fn favour_scarce<'a>(
        &mut self,
        spaces: &(impl Iterator<Item = &'a Space> + Clone),
        demand: i64,
        free: i64,
    ) {
        const ONCE: i128 = 1 << 8;
        for group in self.groups.iter_mut().filter(|group| group.cards > 1) {
            let supply: i64 = spaces.clone().map(|space| group.supply(space)).sum();
            let needed = i128::from(group.demand) * i128::from(free) / i128::from(demand.max(1));
            let times = (needed * ONCE / i128::from(supply.max(1))).clamp(ONCE / 2, ONCE * 4);
            for (_, weight) in &mut group.weight_up_to {
                *weight = i64::try_from(i128::from(*weight) * times / ONCE).unwrap_or(*weight);
            }
        }
    }

    pub(super) fn tallies(&self, space: &Space) -> Vec<Tally> {
        self.groups.iter().map(|group| group.tally(space)).collect()
    }

    /// The usable room now, in grains times [`Self::weight`].
    pub(super) fn now(&self, tallies: &[Tally], cpu: i64) -> i64 {
        self.after(tallies, cpu, &[])
    }

    /// What stays usable after these cuts.
    pub(super) fn after(&self, tallies: &[Tally], cpu: i64, cuts: &[Cut<'_>]) -> i64 {
        let mut usable = 0;
        for (group, tally) in self.groups.iter().zip(tallies) {
            if tally.cards < group.cards {
                continue;
            }
            let mut tally = *tally;
            for (card, left) in cuts {
                if group.admits(card) {
                    tally.remove(card.room());
                    if card.would_admit(&group.want, left) {
                        tally.add(left.room);
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
