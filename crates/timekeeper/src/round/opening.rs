//! Periods begin: each budget gets its amount once, and what may be carried over.

use gpushare_ledger::Seconds;
use gpushare_ledger::opening::open;
use gpushare_ledger::period::Schedule;
use gpushare_ledger::policy::Policy;

use super::{RecordError, Timekeeper};
use crate::books::Books;

impl Timekeeper {
    /// Returns the budgets that moved on from an earlier period.
    pub(super) async fn open_periods(
        &self,
        books: &mut Books,
        now: Seconds,
    ) -> Result<Vec<String>, RecordError> {
        let mut begun = Vec::new();
        let payers = books.payers.clone();
        for (budget, policy, _) in payers.understood() {
            if self.open_period(books, budget, policy, now).await? {
                begun.push(budget.to_owned());
            }
        }
        books
            .issued
            .retain(|budget, _| payers.budget(budget).is_some());
        Ok(begun)
    }

    async fn open_period(
        &self,
        books: &mut Books,
        budget: &str,
        policy: &Policy,
        now: Seconds,
    ) -> Result<bool, RecordError> {
        if matches!(policy.schedule, Schedule::Rolling { .. }) {
            return Ok(false);
        }
        let slot = match policy.schedule.slot(now) {
            Ok(slot) => slot,
            Err(error) => {
                tracing::warn!(budget, %error, "a period cannot be opened");
                return Ok(false);
            }
        };
        let issued = (slot.start, policy.amount);
        if books.issued.get(budget) == Some(&issued) {
            return Ok(false);
        }
        let opened = self.ledger().opened(budget).await?;
        match open(budget, policy, opened, now) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                self.write(changes).await?;
                books.written();
            }
            Err(error) => tracing::warn!(budget, %error, "a period cannot be opened"),
        }
        books.issued.insert(budget.to_owned(), issued);
        Ok(opened.is_some_and(|opened| opened < slot.start))
    }
}
