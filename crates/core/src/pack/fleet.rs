//! The fleet: all spaces of a cluster, what was learnt of its requests, and the one loop that chooses.

use super::fgd::{self, Published};
use super::grain::GRAINS;
use super::lessons::{Lessons, WEIGHT};
use super::mix::Mix;
use super::policy::{Criterion, MAX_CRITERIA, Measure, Policy};
use super::pool::Pools;
use super::scarcity::FULL;
use super::shape::Shape;
use super::space::{CardRoom, CardSet, Space};
use super::stock::Stock;
use super::usable::{Tally, Usable};
use crate::ids::NodeName;

/// Requests after which the mix is looked at for the first time; then at each doubling.
const FIRST_LESSON: u64 = 32;
/// Requests between two lessons, at most.
const LESSON_EVERY: u64 = 512;
/// Requests between two looks at the scarcity of pools.
const SCARCITY_EVERY: u64 = 8;
/// What scarcity costs against room.
const SCARCITY_WEIGHT: i64 = 8;

#[derive(Clone, Debug)]
struct Node {
    name: NodeName,
    space: Space,
    room: i64,
    tallies: Vec<Tally>,
    usable: i64,
    stranded: i64,
}

/// A placement: a node by its place in the order, and its cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    pub node: usize,
    pub cards: CardSet,
}

/// The criteria's values, less is better, the first counting most.
pub type Key = [i64; MAX_CRITERIA];

/// One value behind a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub name: &'static str,
    pub value: i64,
}

#[derive(Clone, Debug)]
pub struct Fleet {
    policy: Policy,
    pools: Pools,
    /// In the order of names, which is the order of ties.
    nodes: Vec<Node>,
    stock: Stock,
    mix: Mix,
    lessons: Lessons,
    taught: bool,
    published: Option<Published>,
    seen: u64,
    /// Grains asked for since the last lesson.
    asked: i64,
}

impl Fleet {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            pools: Pools::default(),
            nodes: Vec::new(),
            stock: Stock::default(),
            mix: Mix::default(),
            lessons: Lessons::default(),
            taught: false,
            published: None,
            seen: 0,
            asked: 0,
        }
    }

    pub fn pools(&self) -> &Pools {
        &self.pools
    }

    pub fn pools_mut(&mut self) -> &mut Pools {
        &mut self.pools
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn space(&self, node: usize) -> Option<&Space> {
        self.nodes.get(node).map(|node| &node.space)
    }

    pub fn name(&self, node: usize) -> Option<&NodeName> {
        self.nodes.get(node).map(|node| &node.name)
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.nodes
            .binary_search_by(|node| node.name.as_str().cmp(name))
            .ok()
    }

    /// Takes over what is free on a node, known or new.
    pub fn set(&mut self, name: &NodeName, space: Space) {
        self.stock.add(&space);
        let mut node = Node {
            name: name.clone(),
            space,
            room: 0,
            tallies: Vec::new(),
            usable: 0,
            stranded: 0,
        };
        node.refresh(&self.lessons);
        match self.nodes.binary_search_by(|node| node.name.cmp(name)) {
            Ok(index) => {
                if let Some(known) = self.nodes.get_mut(index) {
                    self.stock.remove(&known.space);
                    *known = node;
                }
            }
            Err(index) => self.nodes.insert(index, node),
        }
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(index) = self.find(name) {
            let node = self.nodes.remove(index);
            self.stock.remove(&node.space);
        }
    }

    /// Learns from one request. Each pod must be shown once, placed or not.
    pub fn observe(&mut self, shape: &Shape) {
        if self.published.is_some() {
            return;
        }
        self.mix.observe(shape);
        self.seen += 1;
        self.asked = self
            .asked
            .saturating_add(self.stock.demand(&self.pools, shape));
        let lesson = if self.seen < LESSON_EVERY {
            self.seen >= FIRST_LESSON && self.seen.is_power_of_two()
        } else {
            self.seen.is_multiple_of(LESSON_EVERY)
        };
        if lesson {
            self.mix.forget(self.asked, self.stock.total().capacity);
            self.asked = 0;
            self.learn();
        } else if self.taught && self.seen.is_multiple_of(SCARCITY_EVERY) {
            self.lessons.scarcity = self.lessons.dependence.scarcity(&self.pools, &self.stock);
        }
    }

    /// Takes these shapes as typical, with how often each occurs among `all` pods, and learns no others
    /// after that: how fragmentation gradient descent was published.
    pub fn know_typical(&mut self, typical: &[(Shape, i64)], all: i64) {
        self.lessons.usable = Usable::new(typical.iter().copied());
        self.published = Some(Published::new(typical, all));
        self.look_again();
    }

    fn learn(&mut self) {
        self.lessons = Lessons::learn(&self.policy, &self.mix, &self.pools, &self.stock);
        self.taught = true;
        self.look_again();
    }

    fn look_again(&mut self) {
        for node in &mut self.nodes {
            node.refresh(&self.lessons);
        }
    }

    /// The best placement in the whole fleet.
    pub fn choose(&self, shape: &Shape) -> Option<Pick> {
        self.choose_among(shape, 0..self.nodes.len())
    }

    /// The best placement on these nodes, in whatever order they come.
    pub fn choose_among(
        &self,
        shape: &Shape,
        nodes: impl IntoIterator<Item = usize>,
    ) -> Option<Pick> {
        let judge = Judge::new(self, shape);
        let mut scratch = Vec::new();
        let mut best: Option<(Key, Pick)> = None;
        for index in nodes {
            let Some(node) = self.nodes.get(index) else {
                continue;
            };
            node.space.choices(shape, |cards| {
                let pick = Pick { node: index, cards };
                if let Some(key) = judge.beats(node, pick, best.as_ref(), &mut scratch) {
                    best = Some((key, pick));
                }
            });
        }
        best.map(|(_, pick)| pick)
    }

    /// Books a placement; false, and nothing changed, when it does not fit (any more).
    pub fn take(&mut self, pick: Pick, shape: &Shape) -> bool {
        self.change(pick.node, |space| space.take(shape, pick.cards))
            .unwrap_or(false)
    }

    /// Frees a placement.
    pub fn give(&mut self, pick: Pick, shape: &Shape) {
        self.change(pick.node, |space| space.give(shape, pick.cards));
    }

    fn change<T>(&mut self, node: usize, change: impl FnOnce(&mut Space) -> T) -> Option<T> {
        let node = self.nodes.get_mut(node)?;
        self.stock.remove(&node.space);
        let changed = change(&mut node.space);
        self.stock.add(&node.space);
        node.refresh(&self.lessons);
        Some(changed)
    }

    /// The values behind a placement, term by term.
    pub fn explain(&self, pick: Pick, shape: &Shape) -> Vec<Term> {
        let Some(node) = self.nodes.get(pick.node) else {
            return Vec::new();
        };
        let judge = Judge::new(self, shape);
        let mut scratch = Vec::new();
        node.after(pick.cards, shape, &mut scratch);
        let mut terms = Vec::new();
        for criterion in self.policy.criteria {
            let value = judge.measure(criterion.measure, node, pick, &scratch);
            terms.push(Term {
                name: criterion.measure.name(),
                value,
            });
            if criterion.measure == Measure::Cost {
                let parts = judge.cost(node, &scratch);
                terms.extend(parts.map(|(name, value)| Term { name, value }));
            }
        }
        terms
    }
}

impl Node {
    fn refresh(&mut self, lessons: &Lessons) {
        self.room = self.space.room();
        self.tallies = lessons.usable.tallies(&self.space);
        self.usable = lessons.usable.now(&self.tallies, self.space.cpu);
        self.stranded =
            lessons
                .strand
                .weighted(self.room, self.space.cpu, self.space.memory, WEIGHT);
    }

    /// The chosen cards before and after the pod.
    fn after(&self, cards: CardSet, shape: &Shape, into: &mut Vec<(CardRoom, CardRoom)>) {
        into.clear();
        into.extend(cards.iter().filter_map(|index| {
            let card = self.space.card(index)?;
            Some((*card, card.less(&shape.want)))
        }));
    }
}

/// One request before the fleet, with what is the same for all nodes worked out once.
struct Judge<'a> {
    fleet: &'a Fleet,
    shape: &'a Shape,
    criteria: &'a [Criterion],
    /// The least any cut for this shape wastes, by pool.
    least_waste: Vec<i64>,
}

impl<'a> Judge<'a> {
    fn new(fleet: &'a Fleet, shape: &'a Shape) -> Self {
        let least_waste = fleet
            .pools
            .iter()
            .zip(&fleet.lessons.prices)
            .map(|((_, pool), prices)| {
                shape
                    .want
                    .size_on(pool)
                    .map_or(0, |size| prices.least_loss(size))
            })
            .collect();
        Self {
            fleet,
            shape,
            criteria: fleet.policy.criteria,
            least_waste,
        }
    }

    /// The key of a placement if it is better than the best so far.
    fn beats(
        &self,
        node: &Node,
        pick: Pick,
        best: Option<&(Key, Pick)>,
        scratch: &mut Vec<(CardRoom, CardRoom)>,
    ) -> Option<Key> {
        node.after(pick.cards, self.shape, scratch);
        let mut key = Key::default();
        let mut better = best.is_none();
        let rivals = best.map_or(Key::default(), |(key, _)| *key);
        for ((criterion, slot), rival) in self.criteria.iter().zip(&mut key).zip(rivals) {
            let value = self.measure(criterion.measure, node, pick, scratch);
            *slot = criterion.key(value, self.shape.cards > 0);
            if !better {
                if *slot > rival {
                    return None;
                }
                better = *slot < rival;
            }
        }
        let earlier =
            best.is_none_or(|(_, rival)| (pick.node, pick.cards) < (rival.node, rival.cards));
        (better || earlier).then_some(key)
    }

    fn measure(
        &self,
        measure: Measure,
        node: &Node,
        pick: Pick,
        cards: &[(CardRoom, CardRoom)],
    ) -> i64 {
        match measure {
            Measure::Order => i64::try_from(pick.node).unwrap_or(i64::MAX),
            Measure::NodeRoom => node.room - taken(cards),
            Measure::CardRoom => cards.iter().map(|(_, after)| after.room()).sum(),
            Measure::Waste => self.waste(cards),
            Measure::Cost => self.cost(node, cards).iter().map(|(_, value)| value).sum(),
            Measure::Fragmentation => {
                let usable = &self.fleet.lessons.usable;
                let left = usable.after(&node.tallies, node.space.cpu - self.shape.cpu, cards);
                let lost = node.usable - left;
                if lost == 0 && self.loses_by_rounding(node) {
                    return 49;
                }
                fgd::score(taken(cards), lost, usable.weight)
            }
        }
    }

    fn loses_by_rounding(&self, node: &Node) -> bool {
        let (before, after) = (node.space.cpu, node.space.cpu - self.shape.cpu);
        self.shape.cards == 0
            && self
                .fleet
                .published
                .as_ref()
                .is_some_and(|published| published.loses_by_rounding(&node.space, before, after))
    }

    fn waste(&self, cards: &[(CardRoom, CardRoom)]) -> i64 {
        cards
            .iter()
            .map(|(before, after)| {
                let pool = before.pool.index();
                let prices = self.fleet.lessons.prices.get(pool);
                let least = self.least_waste.get(pool).copied().unwrap_or(0);
                prices.map_or(0, |prices| prices.loss(before.room(), after.room()) - least)
            })
            .sum()
    }

    /// Grains: usable room lost beyond what is taken, room stranded, and the scarcity of the pool.
    fn cost(&self, node: &Node, cards: &[(CardRoom, CardRoom)]) -> [(&'static str, i64); 3] {
        let lessons = &self.fleet.lessons;
        let (cpu, memory) = (
            node.space.cpu - self.shape.cpu,
            node.space.memory - self.shape.memory,
        );
        let taken = taken(cards);
        let usable = lessons.usable.after(&node.tallies, cpu, cards);
        let stranded = lessons
            .strand
            .weighted(node.room - taken, cpu, memory, WEIGHT);
        let scarce: i64 = cards
            .iter()
            .map(|(before, after)| {
                let scarcity = lessons
                    .scarcity
                    .get(before.pool.index())
                    .copied()
                    .unwrap_or(0);
                (before.room() - after.room()) * scarcity / FULL
            })
            .sum();
        [
            (
                "usable room lost",
                (node.usable - usable - taken * lessons.usable.weight) / WEIGHT,
            ),
            ("room stranded", (stranded - node.stranded) / WEIGHT),
            ("scarcity of the pool", scarce * SCARCITY_WEIGHT),
        ]
    }
}

fn taken(cards: &[(CardRoom, CardRoom)]) -> i64 {
    cards
        .iter()
        .map(|(before, after)| before.room() - after.room())
        .sum()
}

/// Cards of the fleet in grains, for reports.
pub const WHOLE_CARD: i64 = GRAINS;
