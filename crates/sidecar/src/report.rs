//! What the application is told: the timekeeper's answer, when it was given, and whether it still holds.

use serde::{Deserialize, Serialize};

/// The fields that we read from the timekeeper's answer; others are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer {
    /// `None` if no budget pays for the namespace.
    budget: Option<PayingBudget>,
    over_budget: bool,
    evict_at: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PayingBudget {
    remaining_seconds: Option<i64>,
    exhausted: bool,
    exhausts_at: Option<String>,
}

/// The content of `budget.json` and of `/budget`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BudgetReport {
    /// GPU-seconds. `None` if no budget pays.
    remaining: Option<i64>,
    exhausted: bool,
    exhausts_at: Option<String>,
    over_budget: bool,
    evict_at: Option<String>,
    /// `None` before the first answer.
    observed_at: Option<String>,
    stale: bool,
}

impl BudgetReport {
    /// Before anything is known.
    pub(super) fn nothing() -> Self {
        Self {
            remaining: None,
            exhausted: false,
            exhausts_at: None,
            over_budget: false,
            evict_at: None,
            observed_at: None,
            stale: true,
        }
    }

    pub(super) fn learned(answer: Answer, now: jiff::Timestamp) -> Self {
        let standing = answer.budget.unwrap_or_default();
        Self {
            remaining: standing.remaining_seconds,
            exhausted: standing.exhausted,
            exhausts_at: standing.exhausts_at,
            over_budget: answer.over_budget,
            evict_at: answer.evict_at,
            observed_at: now
                .round(jiff::Unit::Second)
                .ok()
                .map(|now| now.to_string()),
            stale: false,
        }
    }

    /// The timekeeper could not be reached: the last known values stay, marked as stale.
    pub(super) fn grown_stale(self) -> Self {
        Self {
            stale: true,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn report(answer: Value) -> BudgetReport {
        let now = jiff::Timestamp::from_second(1_794_823_200).unwrap();
        BudgetReport::learned(serde_json::from_value(answer).unwrap(), now)
    }

    fn written(report: &BudgetReport) -> Value {
        serde_json::to_value(report).unwrap()
    }

    #[test]
    fn the_application_reads_what_remains_and_when_it_must_go() {
        let report = report(json!({
            "namespace": "team-a", "pod": "train-0",
            "budget": {"name": "b", "remainingSeconds": 27_000, "exhausted": false,
                "exhaustsAt": "2026-11-20T10:00:00Z"},
            "overBudget": true, "evictAt": "2026-11-16T10:10:00Z",
        }));
        assert_eq!(
            written(&report),
            json!({
                "remaining": 27_000, "exhausted": false, "exhaustsAt": "2026-11-20T10:00:00Z", "overBudget": true,
                "evictAt": "2026-11-16T10:10:00Z", "observedAt": "2026-11-16T10:00:00Z", "stale": false,
            })
        );
    }

    #[test]
    fn what_was_known_stays_when_the_timekeeper_is_away_and_is_marked() {
        let known = report(json!({"budget": {"remainingSeconds": 5}}));
        let mut expected = written(&known);
        expected["stale"] = json!(true);
        assert_eq!(written(&known.grown_stale()), expected);
    }

    #[test]
    fn every_field_is_there_from_the_beginning_and_without_a_budget() {
        let keys = |report: &BudgetReport| {
            let written = written(report);
            let keys = written.as_object().unwrap().keys().cloned();
            keys.collect::<Vec<_>>()
        };
        let free = report(json!({"budget": null}));
        assert_eq!(keys(&BudgetReport::nothing()), keys(&free));
        assert_eq!(written(&free)["remaining"], Value::Null);
        assert_eq!(written(&BudgetReport::nothing())["stale"], json!(true));
    }
}
