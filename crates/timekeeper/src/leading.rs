//! What only the leader does, and when its term begins and ends.
//!
//! Every replica follows the cluster, so that its view is warm, but only one charges. When a term begins, the ledger
//! gives it a number, and from then on refuses all other writers. So two leaders do no harm, because only one can write.

use std::convert::Infallible;
use std::time::Instant;

use futures::StreamExt;
use gpushare_daemon::Tasks;
use gpushare_daemon::causes::with_causes;
use gpushare_ledger::store::StoreError;

use super::Timekeeper;
use super::publishing::Publisher;
use gpushare_kube::leader::election::{Candidacy, Election};

/// After a failed check, wait this many times as long as the check took.
const CHECKS: u32 = 10;

impl Timekeeper {
    /// Takes part in the election, if there is one, and does the leader's work while this replica leads.
    pub fn lead(&self, election: Option<Election>, tasks: &Tasks) {
        let holder = election.as_ref().map_or_else(
            || "the only timekeeper".to_owned(),
            |election| election.identity.clone(),
        );
        let (timekeeper, shutdown) = (self.clone(), tasks.shutdown().clone());
        let working = tasks.job(async move {
            shutdown
                .run_until_cancelled(timekeeper.work_in_terms(&holder))
                .await;
        });
        let Some(election) = election else { return };
        let candidacy = Candidacy::new(election, self.client().clone(), self.leadership().clone());
        let quiet = async {
            // The work ends with the process's shutdown.
            let _ended = working.await;
        };
        let timekeeper = self.clone();
        let lost = move || *timekeeper.0.term.write() = None;
        let shutdown = tasks.shutdown().clone();
        tasks.service("the leader election", candidacy.run(shutdown, quiet, lost));
    }

    async fn work_in_terms(&self, holder: &str) {
        let mut terms = self.leadership().terms();
        while let Some(term) = terms.next().await {
            tokio::select! {
                () = self.leadership().ended(term) => {}
                never = self.work(term, holder) => match never {},
            }
            *self.0.term.write() = None;
            // Another replica publishes the figures from now on.
            self.0.metrics.stands_no_more();
            self.ledger_works();
        }
    }

    /// Checks the ledger and writes to it until the term ends. When it cannot be written any more, this starts over and
    /// drops what was known of the ledger, because somebody may have replaced the database.
    async fn work(&self, term: u64, holder: &str) -> Infallible {
        let mut publisher = Publisher::new(self.0.parts.pace.status);
        let mut checked = false;
        loop {
            let mut pause = self.0.parts.pace.interval;
            if !checked {
                let (began, check) = (Instant::now(), self.ledger().check().await);
                let took = began.elapsed();
                tracing::info!(?took, whole = check.is_ok(), "checked the ledger");
                // A check that waited for an answer puts no load on the ledger, which may recover at any moment.
                let silent = matches!(check, Err(StoreError::Silent(_)));
                pause = pause.max(if silent { took } else { took * CHECKS });
                checked = check.is_ok();
                if let Err(error) = check {
                    self.give_up(&error, &mut publisher).await;
                    tokio::time::sleep(pause).await;
                    continue;
                }
            }
            let stopped = self.write_in(term, holder, &mut publisher).await;
            *self.0.term.write() = None;
            checked = !stopped.needs_opening();
            self.give_up(&stopped, &mut publisher).await;
            tokio::time::sleep(pause).await;
        }
    }

    /// Takes over the ledger, which fences the previous writer, and then runs rounds. Returns why they ended.
    async fn write_in(&self, term: u64, holder: &str, publisher: &mut Publisher) -> StoreError {
        let epoch = match self.ledger().take_over(holder).await {
            Ok(epoch) => epoch,
            Err(error) => return error,
        };
        tracing::info!(term, ?epoch, "this replica writes the ledger");
        *self.0.term.write() = Some((term, epoch));
        self.rounds(publisher).await
    }

    /// Records that nothing can be written, and reports it in the budgets' status if that lasts.
    async fn give_up(&self, error: &StoreError, publisher: &mut Publisher) {
        self.0.metrics.ledger_failed();
        let error_text = with_causes(error);
        tracing::error!(
            error = error_text,
            "the ledger cannot be written; trying again"
        );
        self.ledger_failed(error);
        if let Some(problem) = self.0.health.problem() {
            self.publish_problem(publisher, &problem).await;
        }
    }

    pub(super) fn ledger_works(&self) {
        self.0.health.works();
        self.0.metrics.ledger_is_healthy(true);
    }

    pub(super) fn ledger_failed(&self, error: &StoreError) {
        self.0.health.failed(error);
        let healthy = self.0.health.problem().is_none();
        self.0.metrics.ledger_is_healthy(healthy);
    }
}
