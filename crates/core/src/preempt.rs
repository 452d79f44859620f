//! Preemption: which pods of lower rank to evict so that a pod fits.
//!
//! ```text
//! Site (a node's rooms, the pods on it) ─┐
//! Search (what the preemptor asks for)  ─┼─► choose ─► Plan (victims, where the pod goes, its Cost)
//! headroom of disruption budgets        ─┘
//! ```
//!
//! A plan is the cheapest set of victims whose eviction makes room on one set of cards. Costs compare
//! by the fields of [`Cost`], in their order. Of several nodes, the one with the cheapest plan is
//! taken. For nodes of usual size the answer is exact; if the steps are used up first, it is the best
//! plan found so far, or "unknown". Nothing here evicts pods, and a pod that a disruption budget
//! protects is never in a plan.

mod choose;
mod claim;
mod dive;
mod rank;
mod sets;

use crate::ids::PodUid;
use crate::placement::{Charges, Placement};
use crate::room::CardRoom;
use std::cmp::Reverse;

pub use choose::choose;
pub use claim::{ClaimError, ClaimRecord, Evictor};
pub use rank::{Rank, Spending};

/// What a disruption budget says about evicting a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guard {
    /// No disruption budget covers the pod.
    #[default]
    Free,
    /// Evicting it uses up headroom of the budget with this index.
    Counted(usize),
    /// It must not be evicted at all.
    Protected,
}

/// A pod that holds a part of the node's cards.
#[derive(Clone, Copy, Debug)]
pub struct Occupant<'a> {
    pub pod: &'a PodUid,
    pub rank: Rank,
    /// When it started, in any unit; later is larger.
    pub started: i64,
    pub guard: Guard,
    /// Whether the pod ends whatever is decided here: it is already ending, or another component
    /// evicts it.
    pub going: bool,
    pub charges: &'a Charges,
}

/// A node as a place for preemption.
#[derive(Clone, Debug)]
pub struct Site<'a> {
    /// The cards as they are, with all pods on them, but without the preemptor's own claim.
    pub rooms: Vec<CardRoom>,
    pub occupants: Vec<Occupant<'a>>,
}

/// What a set of victims costs; less is better, and earlier fields count first. Adding a victim never
/// reduces the cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The highest rank among the victims.
    pub rank: Option<Rank>,
    /// The number of victims whose owners are within their budget.
    pub within_budget: u32,
    pub victims: u32,
    /// What they hold, in millionths of a card.
    pub amount: u64,
    /// When the oldest victim started: a later start means less lost work.
    pub oldest: Reverse<i64>,
}

impl Cost {
    pub const NOTHING: Self = Self {
        rank: None,
        within_budget: 0,
        victims: 0,
        amount: 0,
        oldest: Reverse(i64::MAX),
    };

    #[must_use]
    pub fn plus(self, other: &Self) -> Self {
        Self {
            rank: self.rank.max(other.rank),
            within_budget: self.within_budget.saturating_add(other.within_budget),
            victims: self.victims.saturating_add(other.victims),
            amount: self.amount.saturating_add(other.amount),
            oldest: self.oldest.max(other.oldest),
        }
    }
}

/// The result for one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VictimChoice {
    Plan(Plan),
    /// It is certain that no permitted set of victims that costs less than the limit makes room.
    Nobody,
    /// The steps were used up before the answer was known.
    Unknown,
}

impl VictimChoice {
    pub fn plan(self) -> Option<Plan> {
        match self {
            Self::Plan(plan) => Some(plan),
            Self::Nobody | Self::Unknown => None,
        }
    }
}

/// Which pods to evict, and where the pod fits then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// In the order of uids. Empty if the pod fits as soon as the pods that end anyway are gone.
    pub victims: Vec<PodUid>,
    pub placement: Placement,
    pub cost: Cost,
}
