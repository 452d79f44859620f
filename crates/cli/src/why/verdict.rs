//! The verdict on a pod: what stands in its way on every node, or before any node is considered.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use gpushare_core::names::BUDGET_GATE;
use gpushare_core::validate::Violations;
use gpushare_core::{NodeName, Steps};

use super::cluster::Cluster;
use super::node::{self, Obstacle};
use super::pod::Pod;
use super::surroundings::{Shortage, Surroundings};

/// A pod in a cluster, as it is now or as it would be after some changes.
#[derive(Clone, Debug)]
pub(super) struct Situation {
    /// Shared until a change is tried on it: most changes concern only the pod.
    pub(super) cluster: Arc<Cluster>,
    pub(super) pod: Pod,
    pub(super) around: Surroundings,
    /// The search steps left for the whole answer.
    pub(super) steps: Rc<Steps>,
}

/// What keeps the pod from being scheduled at all, or from being created.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Block {
    Invalid(Violations),
    Gate(String),
    NoScheduler,
    /// `spec.nodeName` names no node.
    NoSuchNode(NodeName),
    /// `spec.nodeName` was written by hand, so no card was chosen.
    PastScheduler(NodeName),
    NoPriorityClass(String),
    NoVolumeClaim(String),
    Quota(Shortage),
}

/// Nodes that reject the pod for the same reasons.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Group {
    /// The obstacles on the node that lacks least.
    pub(super) obstacles: Vec<Obstacle>,
    pub(super) same: bool,
    /// The first is the node that lacks least; the order of the others has no meaning.
    pub(super) nodes: Vec<NodeName>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Blocked(Block),
    Fits(Vec<NodeName>),
    /// The group that takes the least work comes first.
    Nowhere(Vec<Group>),
}

impl Situation {
    pub(super) fn verdict(&self) -> Verdict {
        match self.block() {
            Some(block) => Verdict::Blocked(block),
            None => self.nodes(),
        }
    }

    fn block(&self) -> Option<Block> {
        let Self {
            cluster,
            pod,
            around,
            ..
        } = self;
        if let Err(violations) = &pod.facts.ask {
            return Some(Block::Invalid(violations.clone()));
        }
        let class = pod.placing.priority_class_name.as_ref();
        if let Some(name) = class.filter(|name| around.missing_class.as_ref() == Some(name)) {
            return Some(Block::NoPriorityClass(name.clone()));
        }
        if let Some(shortage) = around.exceeded(pod) {
            return Some(Block::Quota(shortage));
        }
        if let Some(node) = &pod.facts.node {
            if !cluster.nodes.contains_key(node) {
                return Some(Block::NoSuchNode(node.clone()));
            }
            if pod.facts.is_past_scheduler() {
                return Some(Block::PastScheduler(node.clone()));
            }
        }
        // Our own gate is the last gate to report: the budget matters only if no other gate holds the pod back.
        let gates = || pod.placing.scheduling_gates.iter().map(|gate| &gate.name);
        let gate = gates().find(|name| *name != BUDGET_GATE);
        if let Some(gate) = gate.or_else(|| gates().next()) {
            return Some(Block::Gate(gate.clone()));
        }
        if around.is_nobody(pod.scheduler()) {
            return Some(Block::NoScheduler);
        }
        let missing = pod.claims().find(|claim| around.lacks_claim(claim));
        missing.map(|claim| Block::NoVolumeClaim(claim.to_owned()))
    }

    fn nodes(&self) -> Verdict {
        let mut fitting = Vec::new();
        let mut groups: BTreeMap<Vec<Obstacle>, Group> = BTreeMap::new();
        for name in self.cluster.nodes.keys() {
            let obstacles = node::obstacles(&self.cluster, &self.pod, name, &self.steps);
            if obstacles.is_empty() {
                fitting.push(name.clone());
                continue;
            }
            let key = obstacles.iter().map(Obstacle::common).collect();
            let group = groups.entry(key).or_insert_with(|| Group {
                obstacles: obstacles.clone(),
                same: true,
                nodes: Vec::new(),
            });
            group.same &= group.obstacles == obstacles;
            if lack(&obstacles) < lack(&group.obstacles) {
                group.obstacles = obstacles;
                group.nodes.insert(0, name.clone());
            } else {
                group.nodes.push(name.clone());
            }
        }
        if !fitting.is_empty() {
            return Verdict::Fits(fitting);
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.sort_by_key(|group| (group.weight(), std::cmp::Reverse(group.nodes.len())));
        Verdict::Nowhere(groups)
    }
}

fn lack(obstacles: &[Obstacle]) -> u64 {
    obstacles
        .iter()
        .fold(0, |sum, obstacle| sum.saturating_add(obstacle.lack()))
}

impl Group {
    fn weight(&self) -> u32 {
        self.obstacles.iter().map(Obstacle::weight).sum()
    }

    pub(super) fn reason(&self) -> String {
        let said = |obstacle: &Obstacle| {
            if self.same {
                obstacle.to_string()
            } else {
                obstacle.of_several()
            }
        };
        let all: Vec<String> = self.obstacles.iter().map(said).collect();
        all.join("; ")
    }
}

impl Block {
    /// The kind of the block, as a word for programs.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "invalid-request",
            Self::Gate(name) if name == BUDGET_GATE => "budget",
            Self::Gate(_) => "scheduling-gate",
            Self::NoScheduler => "no-scheduler",
            Self::NoSuchNode(_) => "no-such-node",
            Self::PastScheduler(_) => "past-scheduler",
            Self::NoPriorityClass(_) => "no-priority-class",
            Self::NoVolumeClaim(_) => "no-volume-claim",
            Self::Quota(_) => "quota",
        }
    }
}
