//! The judge: evaluates the criteria of a policy for a placement.

use super::super::fgd;
use super::super::grain::{self, GRAINS};
use super::super::lessons::WEIGHT;
use super::super::policy::{Criterion, MAX_CRITERIA, Measure, Policy};
use super::super::scarcity::FULL;
use super::super::shape::{Shape, Want};
use super::super::space::CardSet;
use super::super::turnover::STAYING;
use super::super::usable::Cut;
use super::{Fleet, Node, Pick, Term};
use gpushare_core::amounts::Amounts;

/// The weight of a stranded grain, relative to a grain that is no longer usable.
const STRAND_WEIGHT: i64 = 3;
/// The weight of a grain from a pool that other pods will need completely.
const SCARCITY_WEIGHT: i64 = 8;
/// The weight of a grain taken from a node, for each card that stays free there, if all pods come and
/// go and all need several cards: a nearly empty node may become empty, and large pods wait for empty
/// nodes.
const OPENING_WEIGHT: i64 = 3;

/// The criteria's values: less is better, the first counts most.
pub type Key = [i64; MAX_CRITERIA];

/// How many judged states of nodes one decision remembers.
const REMEMBERED: usize = 256;

/// One request to the fleet; what is the same for all nodes is computed once.
pub(super) struct Judge<'a> {
    fleet: &'a Fleet,
    shape: &'a Shape,
    criteria: &'static [Criterion],
    /// The least that any cut for this shape wastes, by pool.
    least_waste: Vec<i64>,
    /// To what degree pods stay, in [`STAYING`]ths.
    staying: i64,
    /// Kept between placements to save allocations.
    cuts: Vec<Cut<'a>>,
    /// Fingerprints of the judged nodes, each with the node's place.
    judged: Vec<(u64, usize)>,
}

/// What a placement costs the cluster, in grains times the weight of the mix.
#[derive(Clone, Copy, Debug)]
struct Cost {
    usable_lost: i64,
    stranded: i64,
    scarce: i64,
    opening: i64,
}

impl Cost {
    fn grains(self) -> i64 {
        (self.usable_lost + self.stranded + self.scarce + self.opening).div_euclid(WEIGHT)
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(fleet: &'a Fleet, policy: &Policy, shape: &'a Shape) -> Self {
        let prices = fleet.pools.iter().zip(&fleet.lessons.prices);
        let mut known: Vec<(&Amounts, i64)> = Vec::new();
        let mut least_waste = Vec::new();
        for ((_, pool), prices) in prices.filter(|_| shape.cards > 0) {
            let alike = known.iter().find(|(size, _)| **size == pool.capacity);
            let least = alike.map_or_else(
                || {
                    shape
                        .size_on(pool)
                        .map_or(0, |size| prices.least_loss(size))
                },
                |(_, least)| *least,
            );
            known.push((&pool.capacity, least));
            least_waste.push(least);
        }
        Self {
            fleet,
            shape,
            criteria: policy.criteria,
            least_waste,
            staying: fleet.turnover.staying(),
            cuts: Vec::new(),
            judged: vec![(0, usize::MAX); REMEMBERED],
        }
    }

    /// Whether an equal node earlier in the order was already judged; that node wins the tie.
    pub(super) fn knows_better(&mut self, index: usize, node: &Node) -> bool {
        let slot = usize::try_from(node.fingerprint >> 32).unwrap_or(0) % REMEMBERED;
        let Some(judged) = self.judged.get_mut(slot) else {
            return false;
        };
        let (fingerprint, earlier) = *judged;
        let better = fingerprint == node.fingerprint && earlier < index;
        if !better {
            *judged = (node.fingerprint, index);
        }
        better
    }

    /// The key of a placement if it is better than the best so far. Later criteria are computed only if
    /// they can decide.
    pub(super) fn beats(
        &mut self,
        node: &'a Node,
        pick: Pick,
        best: Option<&(Key, Pick)>,
    ) -> Option<Key> {
        self.cut(node, pick.cards);
        let mut key = Key::default();
        let mut better = best.is_none();
        let rivals = best.map_or(Key::default(), |(key, _)| *key);
        for ((criterion, slot), rival) in self.criteria.iter().zip(&mut key).zip(rivals) {
            *slot = criterion.key(self.measure(criterion.measure, node, pick));
            if !better {
                if *slot > rival {
                    return None;
                }
                better = *slot < rival;
            }
        }
        let earlier = best.is_none_or(|(_, rival)| pick < *rival);
        (better || earlier).then_some(key)
    }

    pub(super) fn explain(&mut self, node: &'a Node, pick: Pick) -> Vec<Term> {
        self.cut(node, pick.cards);
        let mut terms = Vec::new();
        for criterion in self.criteria {
            terms.push(Term {
                name: criterion.measure.name(),
                value: self.measure(criterion.measure, node, pick),
            });
            if criterion.measure == Measure::Cost {
                let cost = self.cost(node);
                let parts = [
                    ("usable room lost beyond the pod's own", cost.usable_lost),
                    ("room stranded without CPU or memory", cost.stranded),
                    ("scarcity of the model", cost.scarce),
                    ("use of an emptier node", cost.opening),
                ];
                terms.extend(parts.map(|(name, value)| Term {
                    name,
                    value: value.div_euclid(WEIGHT),
                }));
            }
        }
        terms
    }

    fn cut(&mut self, node: &'a Node, cards: CardSet) {
        self.cuts.clear();
        let cards = cards.iter().filter_map(|index| node.space.card(index));
        self.cuts
            .extend(cards.map(|card| (card, card.left(&self.shape.want))));
    }

    fn measure(&self, measure: Measure, node: &Node, pick: Pick) -> i64 {
        match measure {
            Measure::Order => i64::try_from(pick.node).unwrap_or(i64::MAX),
            Measure::NodeRoom => node.room - self.asked(),
            Measure::CardRoom => self.cuts.iter().map(|(_, left)| left.room).sum(),
            Measure::Waste => self.waste(),
            Measure::Cost => self.cost(node).grains(),
            Measure::Fragmentation => self.fragmentation(node),
        }
    }

    /// What the pod takes in grains, the same for every card of one size: the remainder of a card is
    /// rounded, and rounding must not decide between two cards.
    fn asked(&self) -> i64 {
        let asked = |(card, left): &Cut<'_>| match &self.shape.want {
            Want::Whole => card.room() - left.room,
            Want::Share(part) => {
                let size = grain::size(&part.on(&card.capacity), &card.capacity);
                size.unwrap_or(GRAINS)
            }
        };
        self.cuts.iter().map(asked).sum()
    }

    fn taken(&self) -> i64 {
        let taken = |(card, left): &Cut<'_>| card.room() - left.room;
        self.cuts.iter().map(taken).sum()
    }

    fn waste(&self) -> i64 {
        self.cuts
            .iter()
            .map(|(card, left)| {
                let pool = card.pool.index();
                let prices = self.fleet.lessons.prices.get(pool);
                let least = self.least_waste.get(pool).copied().unwrap_or(0);
                prices.map_or(0, |prices| prices.loss(card.room(), left.room) - least)
            })
            .sum()
    }

    fn cost(&self, node: &Node) -> Cost {
        let lessons = &self.fleet.lessons;
        let cpu = node.space.cpu - self.shape.cpu;
        let memory = node.space.memory - self.shape.memory;
        let taken = self.taken();
        let usable = lessons.usable.after(&node.tallies, cpu, &self.cuts);
        let left = node.room - taken;
        let stranded = if self.staying > 0 {
            let stranded = lessons.strand.grains(left, cpu, memory) - node.stranded;
            stranded * STRAND_WEIGHT * self.staying * (WEIGHT / STAYING)
        } else {
            0
        };
        let leaving = STAYING - self.staying;
        let scarcity = |(card, left): &Cut<'_>| {
            let of_pool = lessons.scarcity.get(card.pool.index());
            (card.room() - left.room) * of_pool.copied().unwrap_or(0) / FULL
        };
        Cost {
            usable_lost: node.usable - usable - taken * lessons.usable.weight,
            stranded,
            scarce: self.cuts.iter().map(scarcity).sum::<i64>() * SCARCITY_WEIGHT * WEIGHT,
            opening: taken * left / GRAINS * OPENING_WEIGHT * lessons.several * leaving / STAYING,
        }
    }

    fn fragmentation(&self, node: &Node) -> i64 {
        let usable = &self.fleet.lessons.usable;
        let (before, after) = (node.space.cpu, node.space.cpu - self.shape.cpu);
        let lost = node.usable - usable.after(&node.tallies, after, &self.cuts);
        let by_rounding =
            lost == 0
                && self.shape.cards == 0
                && self.fleet.published.as_ref().is_some_and(|published| {
                    published.loses_by_rounding(&node.space, before, after)
                });
        if by_rounding {
            fgd::UNCHANGED - 1
        } else {
            fgd::score(self.taken(), lost, usable.weight)
        }
    }
}
