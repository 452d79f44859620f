//! Which priority class a pod gets: the class for its budget's state, unless it has chosen one that it may have.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use gpushare_core::names::{IN_BUDGET, OUR_CLASSES, OVER_BUDGET};
use gpushare_kube::admission::manifest::Spec;

/// How a namespace stands with its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetState {
    /// No budget pays for it.
    Free,
    Within,
    Over(AtTheEnd),
    /// Budgets or namespaces have not been listed yet.
    Unknown,
}

/// What happens to new pods when nothing remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTheEnd {
    Demote,
    Wait,
}

/// What is known of a priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Class {
    pub value: i32,
    pub preempts: bool,
    /// The API server gives it to pods that name no class.
    pub is_default: bool,
}

/// The priority classes of the cluster by name.
pub type Classes = BTreeMap<String, Class>;

/// Why a pod may not have the class that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ClassRefusal {
    /// Only we assign this class, and no budget pays for the pod.
    Ours(String),
    OutOfBand {
        class: String,
        value: i32,
        band: RangeInclusive<i32>,
    },
}

impl fmt::Display for ClassRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(class) => write!(
                f,
                "priorityClassName: {class:?} is reserved for namespaces with a budget, and this namespace has none; remove it"
            ),
            Self::OutOfBand { class, value, band } => write!(
                f,
                "priorityClassName: {class:?} has the priority {value}; in a namespace with a budget, name a class with a priority from {} to {}, or none",
                band.start(),
                band.end()
            ),
        }
    }
}

/// The class that replaces the pod's own; `None` if that stays.
pub(super) fn replacement(
    spec: &Spec,
    budget: BudgetState,
    classes: &Classes,
    band: &RangeInclusive<i32>,
) -> Result<Option<&'static str>, ClassRefusal> {
    let named = spec.priority_class_name.as_deref().unwrap_or_default();
    let known = classes.get(named);
    // The API server has already written the default class into a pod that names none.
    let chosen = !named.is_empty() && known.is_none_or(|class| !class.is_default);
    let wanted = match budget {
        BudgetState::Free | BudgetState::Unknown if chosen && named.starts_with(OUR_CLASSES) => {
            // Before budgets are known, the pod may well be entitled to the class.
            let free = budget == BudgetState::Free;
            return if free {
                Err(ClassRefusal::Ours(named.to_owned()))
            } else {
                Ok(None)
            };
        }
        BudgetState::Free | BudgetState::Unknown => return Ok(None),
        // A pod that waits runs only when there is budget again.
        BudgetState::Within | BudgetState::Over(AtTheEnd::Wait) => IN_BUDGET,
        BudgetState::Over(AtTheEnd::Demote) => OVER_BUDGET,
    };
    if !chosen {
        return Ok(Some(wanted));
    }
    if named == wanted {
        return Ok(None);
    }
    // For a pod, the API server has computed the value; a template only has the name.
    let Some(value) = spec.priority.or(known.map(|class| class.value)) else {
        return Ok(None);
    };
    if !named.starts_with(OUR_CLASSES) && !band.contains(&value) {
        return Err(ClassRefusal::OutOfBand {
            class: named.to_owned(),
            value,
            band: band.clone(),
        });
    }
    let stays = match budget {
        BudgetState::Over(AtTheEnd::Demote) => {
            let lowest = classes.get(OVER_BUDGET).map(|class| class.value);
            let preempts = spec.preemption_policy.as_deref() != Some("Never");
            lowest.is_some_and(|lowest| value <= lowest) && !preempts
        }
        _ => true,
    };
    Ok((!stays).then_some(wanted))
}
