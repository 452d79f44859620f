//! Whether the ledger can be used, as probes, metrics and the budgets' conditions report it.
//!
//! Damage and timeouts are reported at once, other errors after a few failures in a row. A problem ends with a complete
//! successful round, because a single answer proves nothing, or with the leader's term.

use gpushare_core::names::condition;
use gpushare_daemon::causes::with_causes;
use gpushare_ledger::store::StoreError;
use parking_lot::RwLock;

use super::payers::Problem;

/// After this many failures in a row, a problem is reported.
pub(super) const TOLERATED: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Health(RwLock<State>);

#[derive(Debug, Default)]
struct State {
    failures: u32,
    problem: Option<Problem>,
}

impl Health {
    /// Why the ledger cannot be used.
    pub(super) fn problem(&self) -> Option<Problem> {
        self.0.read().problem.clone()
    }

    /// A round has succeeded.
    pub(super) fn works(&self) {
        let well = self.0.read().failures == 0;
        if !well {
            *self.0.write() = State::default();
        }
    }

    pub(super) fn failed(&self, error: &StoreError) {
        let mut state = self.0.write();
        state.failures = state.failures.saturating_add(1);
        // Before the ledger counts as silent, a request has already waited for minutes.
        let certain = error.is_damage() || matches!(error, StoreError::Silent(_));
        if certain || state.failures >= TOLERATED {
            state.problem = Some(told(error));
        }
    }
}

fn told(error: &StoreError) -> Problem {
    let what = with_causes(error);
    if error.is_damage() {
        Problem {
            reason: condition::LEDGER_CORRUPTED,
            message: format!(
                "the ledger is damaged ({what}): restore a backup as docs/operations.md says; until then nothing is \
                 charged and no metered pod is let go, and afterwards what the backup lacks is charged from the pods"
            ),
        }
    } else {
        Problem {
            reason: condition::LEDGER_UNAVAILABLE,
            message: format!(
                "the ledger cannot be used ({what}): look after its disk or database; until then nothing is charged \
                 and no metered pod is let go, and afterwards everything is made up for"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(health: &Health) -> Option<&'static str> {
        health.problem().map(|problem| problem.reason)
    }

    #[test]
    fn a_ledger_that_does_not_answer_is_told_at_once() {
        let health = Health::default();
        health.failed(&StoreError::Silent(120));
        assert_eq!(reason(&health), Some("LedgerUnavailable"));
        health.works();
        assert_eq!(reason(&health), None);
    }

    #[test]
    fn damage_is_told_at_once_and_anything_else_when_it_stays() {
        let health = Health::default();
        health.failed(&StoreError::Stopped);
        health.failed(&StoreError::Stopped);
        assert_eq!(reason(&health), None);
        health.works();
        health.failed(&StoreError::Stopped);
        health.failed(&StoreError::Stopped);
        assert_eq!(reason(&health), None);
        health.failed(&StoreError::Stopped);
        assert_eq!(reason(&health), Some("LedgerUnavailable"));
        health.failed(&StoreError::Damaged("page 7".to_owned()));
        assert_eq!(reason(&health), Some("LedgerCorrupted"));
        health.works();
        assert_eq!(reason(&health), None);
        health.failed(&StoreError::Damaged("page 7".to_owned()));
        let message = health.problem().unwrap().message;
        assert!(
            message.contains("page 7") && message.contains("restore"),
            "{message}"
        );
    }
}
