//! One round of the leader: charge what is due, open periods, release settled pods, publish how budgets stand.
//!
//! The order matters. Cards are stored before anything is charged for them. Charges are written before the next period
//! opens, because what is left is carried over. A finalizer is removed only when the pod's end is on disk. Whatever
//! fails is done in a later round.

mod charging;
mod finalizers;
mod lost;
mod opening;
mod standing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use gpushare_core::PodUid;
use gpushare_daemon::causes::with_causes;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_ledger::Seconds;
use gpushare_ledger::store::StoreError;
use tokio::sync::watch;

use super::books::Books;
use super::cards::Cards;
use super::health::TOLERATED;
use super::kubelets::Kubelets;
use super::payers::Payers;
use super::publishing::Publisher;
use super::view::SeenPod;
use super::{RecordError, Timekeeper};

const DAY: Seconds = 86_400;

/// The view at the beginning of a round.
#[derive(Debug)]
struct Snapshot {
    pods: BTreeMap<PodUid, Arc<SeenPod>>,
    nodes: Arc<Cards>,
    kubelets: Arc<Kubelets>,
    budgets: BTreeMap<String, GpuBudget>,
    now: Seconds,
}

impl Timekeeper {
    /// Runs rounds until another process has become the ledger's writer, or until the ledger cannot be used as it is.
    pub(super) async fn rounds(&self, publisher: &mut Publisher) -> StoreError {
        let classes = &self.0.parts.dialects.classes;
        let mut books = match Books::read(self.ledger(), classes).await {
            Ok(books) => books,
            Err(error) => return error,
        };
        let stopped = self.rounds_with(&mut books, publisher).await;
        // The ledger does not know when these pods disappeared, so the view keeps the times for the next rounds.
        self.0.view.write().gone.extend(books.gone);
        stopped
    }

    async fn rounds_with(&self, books: &mut Books, publisher: &mut Publisher) -> StoreError {
        let mut changes = self.changes();
        let mut failures = 0;
        loop {
            changes.mark_unchanged();
            match self.round(books, publisher).await {
                Ok(()) => {
                    failures = 0;
                    self.ledger_works();
                }
                Err(RecordError::Store(error)) => {
                    failures += 1;
                    let fenced = matches!(error, StoreError::Fenced { .. });
                    if fenced || error.needs_opening() || failures >= TOLERATED {
                        return error;
                    }
                    tracing::error!(error = with_causes(&error), "a round failed; trying again");
                    self.ledger_failed(&error);
                }
                Err(error) => tracing::info!(%error, "a round was given up"),
            }
            self.pause(&mut changes).await;
        }
    }

    /// Waits until something changes, at most for the interval and at least for a fifth of it.
    async fn pause(&self, changes: &mut watch::Receiver<u64>) {
        let interval: Duration = self.0.parts.pace.interval;
        let least = interval / 5;
        tokio::time::sleep(least).await;
        tokio::select! {
            _changed = changes.changed() => {}
            () = self.0.written.notified() => {}
            () = tokio::time::sleep(least * 4) => {}
        }
    }

    async fn round(&self, books: &mut Books, publisher: &mut Publisher) -> Result<(), RecordError> {
        let Some(snapshot) = self.snapshot(books) else {
            return Ok(());
        };
        // Grants are written outside the rounds, so known balances may be stale.
        books.written();
        let due = self.charge(books, &snapshot).await?;
        self.end_lost(books, &snapshot).await?;
        let opened = self.open_periods(books, snapshot.now).await?;
        self.change_finalizers(&due).await;
        let figures = self.figures(books, &snapshot, &due.charged).await?;
        self.0.metrics.stands(&figures, due.charged.len());
        let payers = books.payers.clone();
        self.publish(publisher, &snapshot.budgets, &payers, &figures, &opened)
            .await;
        self.retain(books, snapshot.now).await?;
        Ok(())
    }

    /// `None` until everything was listed once.
    fn snapshot(&self, books: &mut Books) -> Option<Snapshot> {
        let now = self.clock().now();
        let mut view = self.0.view.write();
        let (pods, nodes, budgets, namespaces) = (
            view.pods.clone()?,
            view.nodes.clone()?,
            view.budgets.clone()?,
            view.namespaces.as_ref()?,
        );
        if books.terms != Some(view.terms) {
            books.payers = Arc::new(Payers::new(&budgets, namespaces));
            books.terms = Some(view.terms);
        }
        books.gone.extend(view.gone.drain(..));
        books.forget_all_but(&pods);
        Some(Snapshot {
            pods,
            nodes,
            kubelets: Arc::clone(&view.kubelets),
            budgets,
            now,
        })
    }

    /// Replaces old charges by their sums, once a day.
    async fn retain(&self, books: &mut Books, now: Seconds) -> Result<(), RecordError> {
        let Some(kept) = self.0.parts.pace.retention else {
            return Ok(());
        };
        if books
            .retained
            .is_some_and(|last| (0..DAY).contains(&(now - last)))
        {
            return Ok(());
        }
        let epoch = self.epoch()?;
        let removed = self.ledger().retain(epoch, now - kept, now).await?;
        if removed > 0 {
            tracing::info!(entries = removed, "replaced old charges by their sums");
        }
        books.retained = Some(now);
        books.written();
        Ok(())
    }
}
