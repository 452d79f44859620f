//! What a budget's status says. Pure.

use gpushare_kube::gpu_budget::{GpuBudget, GpuBudgetStatus, condition};
use gpushare_kube::kinds::{Condition, Time};
use gpushare_ledger::Seconds;
use gpushare_ledger::forecast::{BudgetStanding, Sums};
use gpushare_ledger::money::Amount;
use gpushare_ledger::period::Span;
use jiff::Timestamp;

use super::payers::Problem;

/// How a budget stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) sums: Sums,
    /// By its own numbers alone.
    pub(super) own: BudgetStanding,
    /// With its ancestors.
    pub(super) standing: BudgetStanding,
    /// The first ancestor that is exhausted.
    pub(super) exhausted_ancestor: Option<String>,
    /// The span that counts; a rolling window has no end.
    pub(super) start: Seconds,
    pub(super) end: Option<Seconds>,
}

impl Figures {
    /// Start and end of `counted`; only a calendar period has an end.
    pub(super) fn period(counted: Span, calendar: bool) -> (Seconds, Option<Seconds>) {
        (counted.start, calendar.then_some(counted.end))
    }
}

/// The status as it should be now. `before` is the current one: conditions that have not changed keep their time.
pub(super) fn status(
    budget: &GpuBudget,
    before: Option<&GpuBudgetStatus>,
    figures: Option<&Figures>,
    problem: Option<&Problem>,
    now: Seconds,
) -> GpuBudgetStatus {
    let generation = budget.metadata.generation;
    let condition = conditions(budget, before, now);
    let ready = match problem {
        Some(Problem { reason, message }) => {
            condition(condition::READY, false, reason, message.clone())
        }
        None => condition(condition::READY, true, condition::CHARGED, String::new()),
    };
    let Some(figures) = figures else {
        return GpuBudgetStatus {
            observed_generation: generation,
            conditions: vec![ready],
            ..GpuBudgetStatus::default()
        };
    };
    let (reason, message) = exhaustion(figures);
    let exhausted = figures.standing.exhausted;
    let text = |amount: Amount| Some(amount.to_string());
    let seconds = |amount: Amount| Some(amount.whole_seconds());
    let (sums, remaining) = (&figures.sums, figures.standing.remaining);
    GpuBudgetStatus {
        observed_generation: generation,
        period_start: Some(time(figures.start)),
        period_end: figures.end.map(time),
        used: text(sums.used),
        held: text(sums.held),
        remaining: text(remaining),
        used_seconds: seconds(sums.used),
        held_seconds: seconds(sums.held),
        remaining_seconds: seconds(remaining),
        exhausted,
        exhausts_at: figures.standing.exhausts_at.map(time),
        conditions: vec![
            ready,
            condition(condition::EXHAUSTED, exhausted, reason, message),
        ],
    }
}

/// The status while the ledger cannot be used: the last known numbers stay and are not updated.
pub(super) fn without_ledger(
    budget: &GpuBudget,
    before: Option<&GpuBudgetStatus>,
    problem: &Problem,
    now: Seconds,
) -> GpuBudgetStatus {
    let Problem { reason, message } = problem;
    let condition = conditions(budget, before, now);
    let ready = condition(condition::READY, false, reason, message.clone());
    let mut status = before.cloned().unwrap_or_default();
    let others = status.conditions.into_iter();
    let others = others.filter(|other| other.type_ != condition::READY);
    status.conditions = std::iter::once(ready).chain(others).collect();
    status
}

/// Makes conditions; one whose status has not changed keeps its time.
fn conditions(
    budget: &GpuBudget,
    before: Option<&GpuBudgetStatus>,
    now: Seconds,
) -> impl Fn(&str, bool, &str, String) -> Condition {
    let generation = budget.metadata.generation;
    move |kind, holds, reason, message| {
        let status = if holds { "True" } else { "False" };
        let mut old = before.into_iter().flat_map(|before| &before.conditions);
        let same = old.find(|old| old.type_ == kind && old.status == status);
        let since = same.map(|same| same.last_transition_time.clone());
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: since.unwrap_or_else(|| time(now)),
            observed_generation: generation,
        }
    }
}

/// Why a budget is exhausted, or that it is not.
pub(super) fn exhaustion(figures: &Figures) -> (&'static str, String) {
    match &figures.exhausted_ancestor {
        _ if figures.own.exhausted => {
            let supplied = figures.sums.supplied;
            let message = format!("nothing remains of {supplied}");
            (condition::NOTHING_REMAINS, message)
        }
        Some(ancestor) => {
            let message =
                format!("nothing remains of budget {ancestor}, of which this one is a part");
            (condition::ANCESTOR_EXHAUSTED, message)
        }
        None => (condition::WITHIN_BUDGET, String::new()),
    }
}

/// Whether anything has changed that the passing of time alone does not change.
pub(super) fn is_news(before: Option<&GpuBudgetStatus>, now: &GpuBudgetStatus) -> bool {
    before.is_none_or(|before| timeless(before) != timeless(now))
}

fn timeless(status: &GpuBudgetStatus) -> GpuBudgetStatus {
    GpuBudgetStatus {
        held: None,
        remaining: None,
        held_seconds: None,
        remaining_seconds: None,
        exhausts_at: None,
        // The start of a rolling window moves all the time.
        period_start: status
            .period_start
            .clone()
            .filter(|_| status.period_end.is_some()),
        ..status.clone()
    }
}

fn time(seconds: Seconds) -> Time {
    Time(Timestamp::from_second(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests;
