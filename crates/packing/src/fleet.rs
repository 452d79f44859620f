//! The fleet: all spaces of a cluster, what was learnt from its requests, and the loop that chooses.

mod judge;

use super::fading::FadingFactor;
use super::fgd::Published;
use super::lessons::{Lessons, Material};
use super::mix::Mix;
use super::policy::{Measure, Policy};
use super::pool::Pools;
use super::shape::Shape;
use super::space::{CardSet, Space};
use super::stock::Stock;
use super::turnover::Turnover;
use super::usable::{ShapeGroups, Tally, WeightedShape};
use gpushare_core::ids::NodeName;
use gpushare_core::journal::{self, Journal};
use judge::Judge;

pub use judge::Key;

/// Requests before the first lesson; until [`LESSON_EVERY`], the next lessons follow at each doubling.
const FIRST_LESSON: u64 = 32;
/// The most requests between two lessons.
const LESSON_EVERY: u64 = 512;
/// Requests between two updates of the scarcity of pools.
const SCARCITY_EVERY: u64 = 8;

/// A node with values derived from the lessons, kept up to date so that choosing only reads them.
#[derive(Clone, Debug)]
struct Node {
    name: NodeName,
    space: Space,
    room: i64,
    tallies: Vec<Tally>,
    usable: i64,
    stranded: i64,
    fingerprint: u64,
}

/// A placement: a node by its place in the order, and its cards. The place is valid until a node is added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pick {
    pub node: usize,
    pub cards: CardSet,
}

/// One value behind a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub name: &'static str,
    pub value: i64,
}

/// All nodes of a cluster and a policy.
#[derive(Clone, Debug)]
pub struct Fleet {
    policy: Policy,
    pools: Pools,
    /// Sorted by name; ties go to the first node in this order.
    nodes: Vec<Node>,
    stock: Stock,
    mix: Mix,
    turnover: Turnover,
    lessons: Lessons,
    /// Typical pods that were given, not learnt.
    published: Option<Published>,
    requests: u64,
    requests_at_lesson: u64,
    /// Grains asked for since the last lesson.
    asked: i64,
    /// By place. Adding or removing a node, a lesson, and a change of scarcity each begin a new edition.
    journal: Journal<usize>,
}

/// How far a reader has followed a fleet's changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bookmark {
    journal: journal::Bookmark,
    staying: i64,
}

impl Fleet {
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            pools: Pools::default(),
            nodes: Vec::new(),
            stock: Stock::default(),
            mix: Mix::default(),
            turnover: Turnover::default(),
            lessons: Lessons::default(),
            published: None,
            requests: 0,
            requests_at_lesson: 0,
            asked: 0,
            journal: Journal::default(),
        }
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
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

    /// Sets what is free on a node, known or new.
    pub fn set(&mut self, name: &NodeName, space: Space) {
        let known = self.find(name.as_str());
        if known.and_then(|index| self.space(index)) == Some(&space) {
            return;
        }
        self.stock.add(&space);
        let mut node = Node {
            name: name.clone(),
            space,
            room: 0,
            tallies: Vec::new(),
            usable: 0,
            stranded: 0,
            fingerprint: 0,
        };
        node.look(&self.lessons);
        if let Some(index) = known
            && let Some(known) = self.nodes.get_mut(index)
        {
            self.stock.remove(&known.space);
            *known = node;
            self.journal.enter(index);
        } else {
            let index = self.nodes.partition_point(|node| node.name < *name);
            self.nodes.insert(index, node);
            self.journal.begin_edition();
        }
    }

    pub fn remove(&mut self, name: &str) {
        if let Some(index) = self.find(name) {
            let node = self.nodes.remove(index);
            self.stock.remove(&node.space);
            self.journal.begin_edition();
        }
    }

    /// Learns from one request. Call it once per pod, whether or not the pod can be placed; after a start, also for
    /// pods that already run.
    ///
    /// Pods without cards are ignored: whether they arrive here depends on the scheduler's configuration, and counting
    /// them would only shift the moments of lessons.
    pub fn observe(&mut self, shape: &Shape) {
        if self.published.is_some() || shape.cards == 0 {
            return;
        }
        self.count(shape);
        let due = if self.requests < LESSON_EVERY {
            self.requests >= FIRST_LESSON && self.requests.is_power_of_two()
        } else {
            self.requests.is_multiple_of(LESSON_EVERY)
        };
        if due {
            self.learn();
        } else if self.requests.is_multiple_of(SCARCITY_EVERY) && self.policy.uses(Measure::Cost) {
            let scarcity = self.lessons.dependence.scarcity(&self.pools, &self.stock);
            if scarcity != self.lessons.scarcity {
                self.lessons.scarcity = scarcity;
                self.journal.begin_edition();
            }
        }
    }

    /// Learns from many requests at once, such as the pods that run at a start, with one lesson for all.
    pub fn observe_all(&mut self, shapes: impl IntoIterator<Item = Shape>) {
        if self.published.is_some() {
            return;
        }
        let before = self.requests;
        for shape in shapes.into_iter().filter(|shape| shape.cards > 0) {
            self.count(&shape);
        }
        if self.requests > before && self.requests >= FIRST_LESSON {
            self.learn();
        }
    }

    fn count(&mut self, shape: &Shape) {
        let grains = self.stock.demand(&self.pools, shape);
        self.mix.observe(shape);
        self.turnover.came(grains);
        self.asked = self.asked.saturating_add(grains);
        self.requests += 1;
    }

    /// Learns that a pod that was placed has ended.
    pub fn observe_end(&mut self, shape: &Shape) {
        self.turnover.gone(self.stock.demand(&self.pools, shape));
    }

    /// Sets these shapes as typical, with how often each occurs among `all` pods, and stops learning: that is how
    /// fragmentation gradient descent was published.
    pub fn know_typical(&mut self, typical: &[(Shape, i64)], all: i64) {
        let weighed = typical.iter().map(|(shape, count)| WeightedShape {
            shape: *shape,
            weight: *count,
            demand: 0,
        });
        self.lessons.usable = ShapeGroups::new(weighed);
        self.published = Some(Published::new(typical, all));
        self.look();
    }

    fn learn(&mut self) {
        let requests = self.requests - self.requests_at_lesson;
        let fading = FadingFactor::after(requests, self.asked, self.stock.total().capacity);
        self.mix.forget(fading);
        self.turnover.forget(fading);
        self.asked = 0;
        self.requests_at_lesson = self.requests;
        let material = Material {
            mix: &self.mix,
            pools: &self.pools,
            stock: &self.stock,
        };
        let spaces = self.nodes.iter().map(|node| &node.space);
        self.lessons = Lessons::learn(&self.policy, material, &spaces);
        self.look();
    }

    fn look(&mut self) {
        for node in &mut self.nodes {
            node.look(&self.lessons);
        }
        self.journal.begin_edition();
    }

    /// The bookmark of a caller that has just judged every node.
    pub(super) fn bookmark(&self) -> Bookmark {
        Bookmark {
            journal: self.journal.end(),
            staying: self.turnover.staying(),
        }
    }

    /// The nodes to judge again; `None` if all of them must be judged again.
    pub(super) fn changed_since(&self, read: Bookmark) -> Option<impl Iterator<Item = usize>> {
        let same = read.staying == self.turnover.staying();
        let changed = self.journal.since(read.journal).filter(|_| same)?;
        Some(changed.copied())
    }

    /// The best placement in the whole fleet.
    pub fn choose(&self, shape: &Shape) -> Option<Pick> {
        self.choose_among(shape, 0..self.nodes.len())
    }

    /// The best placement on these nodes, whatever their order.
    pub fn choose_among(
        &self,
        shape: &Shape,
        nodes: impl IntoIterator<Item = usize>,
    ) -> Option<Pick> {
        self.choose_by(&self.policy, shape, nodes)
    }

    /// [`Self::choose_among`] with another policy, which must not need lessons of its own.
    pub fn choose_by(
        &self,
        policy: &Policy,
        shape: &Shape,
        nodes: impl IntoIterator<Item = usize>,
    ) -> Option<Pick> {
        let mut judge = Judge::new(self, policy, shape);
        let mut best: Option<(Key, Pick)> = None;
        let by_order = policy.goes_by_order();
        for index in nodes {
            if by_order && best.is_some_and(|(_, best)| best.node < index) {
                continue;
            }
            if let Some(node) = self.nodes.get(index)
                && !judge.knows_better(index, node)
            {
                improve(&mut judge, shape, index, node, &mut best);
            }
        }
        best.map(|(_, pick)| pick)
    }

    /// The best placement on each of these nodes that has one, best node first.
    pub fn rank<'a>(
        &'a self,
        shape: &'a Shape,
        nodes: impl IntoIterator<Item = usize> + 'a,
    ) -> Vec<(Key, Pick)> {
        let mut ranking: Vec<(Key, Pick)> = self.judge_each(&self.policy, shape, nodes).collect();
        ranking.sort_unstable();
        ranking
    }

    /// The best placement on each of these nodes that has one.
    pub(super) fn judge_each<'a>(
        &'a self,
        policy: &Policy,
        shape: &'a Shape,
        nodes: impl IntoIterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = (Key, Pick)> + 'a {
        let mut judge = Judge::new(self, policy, shape);
        nodes.into_iter().filter_map(move |index| {
            let mut best = None;
            improve(&mut judge, shape, index, self.nodes.get(index)?, &mut best);
            best
        })
    }

    /// The values behind a placement, term by term; in grains unless the name says otherwise.
    pub fn explain(&self, pick: Pick, shape: &Shape) -> Vec<Term> {
        match self.nodes.get(pick.node) {
            Some(node) => Judge::new(self, &self.policy, shape).explain(node, pick),
            None => Vec::new(),
        }
    }

    /// Books a placement; returns false and changes nothing if it does not fit (any more).
    pub fn take(&mut self, pick: Pick, shape: &Shape) -> bool {
        self.change(pick.node, |space| space.take(shape, pick.cards))
            .unwrap_or(false)
    }

    /// Frees a placement.
    pub fn give(&mut self, pick: Pick, shape: &Shape) {
        self.change(pick.node, |space| space.give(shape, pick.cards));
    }

    fn change<T>(&mut self, index: usize, change: impl FnOnce(&mut Space) -> T) -> Option<T> {
        let node = self.nodes.get_mut(index)?;
        self.stock.remove(&node.space);
        let changed = change(&mut node.space);
        self.stock.add(&node.space);
        node.look(&self.lessons);
        self.journal.enter(index);
        Some(changed)
    }
}

fn improve<'a>(
    judge: &mut Judge<'a>,
    shape: &Shape,
    index: usize,
    node: &'a Node,
    best: &mut Option<(Key, Pick)>,
) {
    node.space.choices(shape, |cards| {
        let pick = Pick { node: index, cards };
        if let Some(key) = judge.beats(node, pick, best.as_ref()) {
            *best = Some((key, pick));
        }
    });
}

impl Node {
    fn look(&mut self, lessons: &Lessons) {
        self.room = self.space.room();
        self.fingerprint = self.space.fingerprint();
        self.tallies = lessons.usable.tallies(&self.space);
        self.usable = lessons.usable.now(&self.tallies, self.space.cpu);
        self.stranded = lessons
            .strand
            .grains(self.room, self.space.cpu, self.space.memory);
    }
}
