//! Which budget a namespace pays from, and which other budgets are charged with it. Pure: the same objects always
//! give the same answer.
//!
//! The most specific selection wins: a budget that names the namespace, then one that names its team, then one whose
//! selector matches its labels. If two budgets select a namespace in the same way, only the administrator can resolve
//! it: the namespace has no budget, and the conditions of both budgets say so.

use std::collections::BTreeMap;

use gpushare_core::names;
use kube::ResourceExt;
use thiserror::Error;

use super::{GpuBudget, Namespaces};
use crate::labels::Labels;

/// How many ancestors a budget may have. There is a limit because each charge goes to the whole chain.
pub const DEEPEST: usize = 8;

#[derive(Clone, Debug, PartialEq)]
pub enum Choice<'a> {
    /// No budget selects the namespace.
    Unbudgeted,
    Budget(&'a GpuBudget),
    /// Several budgets select it in the same way; in the order of their names.
    Ambiguous(Vec<&'a GpuBudget>),
}

/// How specifically a budget selects a namespace; a larger value is more specific.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Right {
    Selector,
    Team,
    Name,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChainError {
    #[error(
        "budget {child} names the parent {parent}, which does not exist: create it, or change spec.parent"
    )]
    Missing { child: String, parent: String },
    #[error("budget {0} is its own ancestor: change spec.parent of one of them")]
    Cycle(String),
    #[error("budget {0} has more than {DEEPEST} ancestors: nest less deeply")]
    TooDeep(String),
}

/// The budget that a namespace pays from.
pub fn choose<'a>(
    budgets: impl IntoIterator<Item = &'a GpuBudget>,
    namespace: &str,
    labels: &Labels,
) -> Choice<'a> {
    let mut best: Option<Right> = None;
    let mut chosen = Vec::new();
    for budget in budgets {
        let selected = budget.spec.namespaces.as_ref();
        let Some(right) = selected.and_then(|selected| right(selected, namespace, labels)) else {
            continue;
        };
        if best < Some(right) {
            best = Some(right);
            chosen.clear();
        }
        if best == Some(right) {
            chosen.push(budget);
        }
    }
    chosen.sort_by_key(|budget| budget.name_any());
    match chosen[..] {
        [] => Choice::Unbudgeted,
        [budget] => Choice::Budget(budget),
        [..] => Choice::Ambiguous(chosen),
    }
}

fn right(selected: &Namespaces, namespace: &str, labels: &Labels) -> Option<Right> {
    let named = |names: &Vec<String>| names.iter().any(|name| name == namespace);
    if selected.names.as_ref().is_some_and(named) {
        return Some(Right::Name);
    }
    let team = selected.team.as_deref();
    if team.is_some() && labels.get(names::TEAM) == team {
        return Some(Right::Team);
    }
    let matches = |selector| labels.match_selector(selector);
    selected
        .selector
        .as_ref()
        .is_some_and(matches)
        .then_some(Right::Selector)
}

/// A budget and its ancestors, from itself up to the root.
pub fn chain<'a>(
    budgets: &BTreeMap<String, &'a GpuBudget>,
    leaf: &'a GpuBudget,
) -> Result<Vec<&'a GpuBudget>, ChainError> {
    let mut chain = vec![leaf];
    let mut last = leaf;
    while let Some(parent) = &last.spec.parent {
        let Some(next) = budgets.get(parent) else {
            return Err(ChainError::Missing {
                child: last.name_any(),
                parent: parent.clone(),
            });
        };
        if chain.iter().any(|seen| seen.name_any() == *parent) {
            return Err(ChainError::Cycle(parent.clone()));
        }
        if chain.len() > DEEPEST {
            return Err(ChainError::TooDeep(leaf.name_any()));
        }
        chain.push(next);
        last = next;
    }
    Ok(chain)
}
