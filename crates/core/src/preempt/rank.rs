//! Who outranks whom.

/// Whether a pod's owner has spent more than is granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spending {
    OverBudget,
    #[default]
    WithinBudget,
}

/// How a pod stands among others when there is not enough for all: whoever is within budget is above whoever
/// is not, whatever their priorities, and among those the priority decides.
///
/// A pod's priority cannot change while it exists, so its spending is what ranks a running pod anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    // In this order: the first field counts first.
    pub spending: Spending,
    pub priority: i32,
}

impl Rank {
    /// The priority of pods that name no class, and of those that budgets pay for.
    pub const ORDINARY: i32 = 0;

    /// Below everybody.
    pub const LOWEST: Self = Self {
        spending: Spending::OverBudget,
        priority: i32::MIN,
    };

    /// Of a pod within its budget, or without one.
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

    /// Of a pod that was created over budget, with a low priority for good, and is within it again: as if it had
    /// been created now.
    pub fn restored(priority: i32) -> Self {
        Self::within_budget(priority.max(Self::ORDINARY))
    }

    pub fn is_over_budget(self) -> bool {
        self.spending == Spending::OverBudget
    }
}
