//! When a budget's periods open. Each period gets the amount once, and what may be carried over from the one before.
//!
//! The steps lead from the last opened period through all others to the current one, so an outage of months ends with
//! the same books as no outage. Charges of the old periods must be written first.

use crate::Seconds;
use crate::journal::Leg;
use crate::money::{Amount, MoneyError};
use crate::period::{PeriodError, Schedule, Span};
use crate::policy::Policy;
use crate::store::{Balance, Change};

/// After a longer outage (three years of daily periods) only the current period is opened.
const MOST_PERIODS: usize = 1_100;

/// The steps that open every period up to the current one. `opened` is where the last period in the ledger begins.
///
/// A rolling window has no periods, and a clock that was set back opens nothing.
pub fn open(
    budget: &str,
    policy: &Policy,
    opened: Option<Seconds>,
    now: Seconds,
) -> Result<Vec<Change>, PeriodError> {
    if matches!(policy.schedule, Schedule::Rolling { .. }) {
        return Ok(Vec::new());
    }
    let issue = |slot: &Span| Change::Issue {
        leg: Leg::new(budget, slot.start),
        amount: policy.amount,
    };
    let current = policy.schedule.slot(now)?;
    let old = match opened {
        None => return Ok(vec![issue(&current)]),
        Some(opened) if opened > current.start => return Ok(Vec::new()),
        Some(opened) if opened == current.start => return Ok(vec![issue(&current)]),
        Some(opened) => opened,
    };
    let mut changes = Vec::new();
    let mut from = old;
    for slot in between(&policy.schedule, old, &current)? {
        changes.push(issue(&slot));
        if policy.rollover_cap > Amount::ZERO {
            changes.push(Change::Rollover {
                budget: budget.to_owned(),
                old: from,
                new: slot.start,
                cap: policy.rollover_cap,
            });
        }
        from = slot.start;
    }
    Ok(changes)
}

/// All periods after the one that begins at `old`, up to the current one; only the current one if there are too many.
fn between(schedule: &Schedule, old: Seconds, current: &Span) -> Result<Vec<Span>, PeriodError> {
    let mut slots = Vec::new();
    let mut at = schedule.slot(old)?.end;
    while at < current.end {
        if slots.len() == MOST_PERIODS {
            return Ok(vec![*current]);
        }
        let slot = schedule.slot(at)?;
        slots.push(slot);
        at = slot.end;
    }
    Ok(slots)
}

/// What a budget has in the time that counts. The amount of a rolling window is not in the ledger, so it is added here.
pub fn supplied(policy: &Policy, balance: &Balance) -> Result<Amount, MoneyError> {
    match policy.schedule {
        Schedule::Calendar { .. } => Ok(balance.supplied),
        Schedule::Rolling { .. } => balance.supplied.plus(policy.amount),
    }
}

#[cfg(test)]
mod tests {
    use gpushare_kube::gpu_budget::GpuBudgetSpec;
    use serde_json::json;

    use super::*;

    const DAY: Seconds = 86_400;

    fn policy(period: &serde_json::Value, cap: Option<&str>) -> Policy {
        let spec = json!({"amount": "20h", "period": period, "rolloverCap": cap});
        let spec: GpuBudgetSpec = serde_json::from_value(spec).unwrap();
        Policy::try_from(&spec).unwrap()
    }

    /// Each step as text, with the days between which it carries, or the day in which it issues.
    fn steps(policy: &Policy, opened: Option<Seconds>, now: Seconds) -> Vec<String> {
        let changes = open("b", policy, opened, now).unwrap();
        let step = |change: &Change| match change {
            Change::Issue { leg, amount } => format!("{} in {}", amount, leg.slot / DAY),
            Change::Rollover { old, new, .. } => format!("{} to {}", old / DAY, new / DAY),
            other => format!("{other:?}"),
        };
        changes.iter().map(step).collect()
    }

    #[test]
    fn every_period_of_an_outage_is_opened_in_its_order() {
        let daily = policy(&json!({"kind": "Day"}), Some("5h"));
        assert_eq!(steps(&daily, None, 7 * DAY + 5), ["20h in 7"]);
        assert_eq!(
            steps(&daily, Some(7 * DAY), 9 * DAY + 5),
            ["20h in 8", "7 to 8", "20h in 9", "8 to 9"]
        );
        assert_eq!(steps(&daily, Some(9 * DAY), 9 * DAY + 5), ["20h in 9"]);
    }

    #[test]
    fn without_a_cap_nothing_is_carried_over() {
        let daily = policy(&json!({"kind": "Day"}), None);
        assert_eq!(steps(&daily, Some(7 * DAY), 8 * DAY), ["20h in 8"]);
    }

    #[test]
    fn a_clock_that_went_back_and_a_rolling_window_open_nothing() {
        let daily = policy(&json!({"kind": "Day"}), Some("5h"));
        assert_eq!(steps(&daily, Some(9 * DAY), 8 * DAY), [""; 0]);
        let rolling = policy(&json!({"kind": "Rolling", "window": "7d"}), None);
        assert_eq!(steps(&rolling, None, 8 * DAY), [""; 0]);
        let balance = Balance::default();
        assert_eq!(supplied(&rolling, &balance).unwrap(), rolling.amount);
        assert_eq!(supplied(&daily, &balance).unwrap(), Amount::ZERO);
    }

    #[test]
    fn a_budget_that_changed_its_period_goes_on_from_the_old_one() {
        let weekly = policy(&json!({"kind": "Week"}), Some("5h"));
        // Day 7 of 1970 is a Wednesday; the next Monday is day 11.
        assert_eq!(
            steps(&weekly, Some(7 * DAY), 12 * DAY),
            ["20h in 11", "7 to 11"]
        );
    }

    #[test]
    fn an_outage_of_many_years_opens_only_the_current_period() {
        let daily = policy(&json!({"kind": "Day"}), Some("5h"));
        assert_eq!(
            steps(&daily, Some(0), 5_000 * DAY),
            ["20h in 5000", "0 to 5000"]
        );
    }
}
