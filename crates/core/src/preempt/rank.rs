//! Which pod outranks which.

/// Whether a pod's owner has spent more GPU time than its budget grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spending {
    OverBudget,
    #[default]
    WithinBudget,
}

/// The order of pods when there is not enough room for all: a pod within budget outranks a pod over budget, whatever
/// their priorities; otherwise the priority decides.
///
/// A pod's priority cannot change while it exists, so only spending can change the rank of a running pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    // The derived order compares the first field first, so the order of the fields matters.
    pub spending: Spending,
    pub priority: i32,
}

impl Rank {
    /// The priority of pods without a priority class, and of pods that a budget pays for.
    pub const ORDINARY: i32 = 0;

    /// Below every other rank.
    pub const LOWEST: Self = Self {
        spending: Spending::OverBudget,
        priority: i32::MIN,
    };

    /// The rank of a pod within its budget, or without a budget.
    pub const fn within_budget(priority: i32) -> Self {
        Self {
            spending: Spending::WithinBudget,
            priority,
        }
    }

    pub const fn over_budget(priority: i32) -> Self {
        Self {
            spending: Spending::OverBudget,
            priority,
        }
    }

    /// The rank of a pod that was created over budget, so that its low priority is permanent, and is within budget
    /// again: as if it had been created now.
    pub fn restored(priority: i32) -> Self {
        Self::within_budget(priority.max(Self::ORDINARY))
    }

    pub fn is_over_budget(self) -> bool {
        self.spending == Spending::OverBudget
    }
}
