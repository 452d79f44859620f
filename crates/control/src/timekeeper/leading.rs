//! What only the leader does, and from when until when.
//!
//! Every replica follows the cluster, so that its view is warm; one charges. When a term begins, the ledger gives it a
//! number, and from then on refuses everybody else: two leaders would do no harm, because only one can write.

use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt;
use gpushare_daemon::Tasks;
use gpushare_timekeeper::store::{StoreError, with_causes};

use super::Timekeeper;
use crate::leader::election::{Candidacy, Election};

/// Until the next attempt, where the ledger cannot be reached or has another writer.
const TRY_AGAIN: Duration = Duration::from_secs(5);

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
            self.0.metrics.stands_no_more();
        }
    }

    /// Until the term ends. Whoever wrote before is refused from here on.
    async fn work(&self, term: u64, holder: &str) -> Infallible {
        loop {
            match self.ledger().take_over(holder).await {
                Ok(epoch) => {
                    tracing::info!(term, ?epoch, "this replica writes the ledger");
                    *self.0.term.write() = Some((term, epoch));
                    let stopped = self.rounds().await;
                    *self.0.term.write() = None;
                    self.complain(&stopped, "another process writes the ledger");
                }
                Err(error) => self.complain(&error, "the ledger cannot be written"),
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
    }

    fn complain(&self, error: &StoreError, what: &str) {
        self.0.metrics.ledger_failed();
        tracing::error!(error = with_causes(error), "{what}; trying again");
    }
}
