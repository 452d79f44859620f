//! Policies as data: a policy is only an ordered list of criteria.
//!
//! One loop serves all policies. It takes the placement with the smallest criteria, compared in order;
//! if all are equal, the first node in order and its lowest cards. A criterion may be rounded down to
//! steps, so that small differences leave the choice to the next criterion.

use super::grain::GRAINS;

/// What a criterion looks at. Rooms are in grains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The node's place in the order.
    Order,
    /// What stays free on all cards of the node.
    NodeRoom,
    /// What stays free on the chosen cards.
    CardRoom,
    /// The value of the chosen cards that the cut wastes, in millionths of a card.
    Waste,
    /// The sum of usable room lost beyond what is taken, stranded room, scarcity of the pool, and use
    /// of an emptier node.
    Cost,
    /// The fragmentation score of the paper, 0 to 100; more is better.
    Fragmentation,
}

impl Measure {
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "node order",
            Self::NodeRoom => "left free on the node",
            Self::CardRoom => "left free on the cards",
            Self::Waste => "cut waste",
            Self::Cost => "cost to the cluster",
            Self::Fragmentation => "fragmentation score",
        }
    }
}

/// One line of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criterion {
    pub measure: Measure,
    /// More is better.
    pub most: bool,
    /// Differences below this do not count.
    pub step: i64,
}

impl Criterion {
    const fn least(measure: Measure) -> Self {
        Self {
            measure,
            most: false,
            step: 1,
        }
    }

    const fn most(measure: Measure) -> Self {
        Self {
            measure,
            most: true,
            step: 1,
        }
    }

    const fn in_steps(self, step: i64) -> Self {
        Self { step, ..self }
    }

    /// The criterion's part of the key; less is better.
    pub fn key(&self, value: i64) -> i64 {
        let stepped = value.div_euclid(self.step.max(1));
        if self.most { -stepped } else { stepped }
    }
}

/// The most criteria a policy may have; a fixed number lets keys be arrays without allocations.
pub const MAX_CRITERIA: usize = 4;

/// How to choose among the placements that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub name: &'static str,
    pub summary: &'static str,
    pub criteria: &'static [Criterion],
}

pub const FIRST_FIT: Policy = Policy {
    name: "first-fit",
    summary: "the first node in order, its first card",
    criteria: &[],
};

pub const BEST_FIT: Policy = Policy {
    name: "best-fit",
    summary: "the fullest node, its tightest card",
    criteria: &[
        Criterion::least(Measure::NodeRoom),
        Criterion::least(Measure::CardRoom),
    ],
};

pub const BINPACK: Policy = Policy {
    name: "binpack",
    summary: "the first node in order, its tightest card (as Aliyun's scheduler does)",
    criteria: &[
        Criterion::least(Measure::Order),
        Criterion::least(Measure::CardRoom),
    ],
};

pub const SPREAD: Policy = Policy {
    name: "spread",
    summary: "the emptiest node, its emptiest card",
    criteria: &[
        Criterion::most(Measure::NodeRoom),
        Criterion::most(Measure::CardRoom),
    ],
};

pub const FGD: Policy = Policy {
    name: "fgd",
    summary: "fragmentation gradient descent as published (USENIX ATC 2023)",
    criteria: &[Criterion::most(Measure::Fragmentation)],
};

pub const LEARNED: Policy = Policy {
    name: "learned",
    summary: "learns the mix of requests: card prices, usable and stranded room, scarcity of models",
    criteria: &[
        Criterion::least(Measure::Waste).in_steps(super::prices::CARD / 50),
        Criterion::least(Measure::Cost).in_steps(GRAINS / 25),
        Criterion::least(Measure::NodeRoom),
        Criterion::least(Measure::CardRoom),
    ],
};

pub const ALL: [Policy; 6] = [LEARNED, FGD, BINPACK, BEST_FIT, FIRST_FIT, SPREAD];

/// The policies that a single pod may ask for: those that need no lessons of their own.
pub const FOR_PODS: [Policy; 4] = [BINPACK, SPREAD, BEST_FIT, FIRST_FIT];

impl Default for Policy {
    fn default() -> Self {
        LEARNED
    }
}

impl Policy {
    pub fn uses(&self, measure: Measure) -> bool {
        self.criteria
            .iter()
            .any(|criterion| criterion.measure == measure)
    }
}

impl Policy {
    /// Whether an earlier node is always better.
    pub fn goes_by_order(&self) -> bool {
        self.criteria
            .first()
            .is_none_or(|criterion| *criterion == Criterion::least(Measure::Order))
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        ALL.into_iter()
            .find(|policy| policy.name == text)
            .ok_or_else(|| {
                let known: Vec<&str> = ALL.iter().map(|policy| policy.name).collect();
                format!("unknown policy {text:?}: use one of {}", known.join(", "))
            })
    }
}
