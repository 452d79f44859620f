//! Charging: everything that is due for every pod, in few transactions.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpushare_core::{NodeName, PodUid};
use gpushare_ledger::Seconds;
use gpushare_ledger::store::{Change, Outcome, StoreError};

use super::{RecordError, Snapshot, Timekeeper};
use crate::books::Books;
use crate::due::{Circumstances, Due, DueCharges, due};
use crate::kubelets::Outlook;
use crate::view::SeenPod;

/// Changes that are written in one transaction.
const TOGETHER: usize = 256;

/// What a round found to be due, all of it written.
#[derive(Debug, Default)]
pub(super) struct DueNow {
    pub(super) charged: Vec<DueCharges>,
    /// Pods for which nothing is left to charge.
    pub(super) over: Vec<Arc<SeenPod>>,
    /// Pods that a budget pays for and that have not ended: each needs the finalizer.
    pub(super) unprotected: Vec<Arc<SeenPod>>,
}

impl Timekeeper {
    pub(super) async fn charge(
        &self,
        books: &mut Books,
        snapshot: &Snapshot,
    ) -> Result<DueNow, RecordError> {
        let gone = std::mem::take(&mut books.gone);
        let charged = self.charge_all(books, snapshot, &gone).await;
        if charged.is_err() {
            books.gone = gone;
        }
        charged
    }

    async fn charge_all(
        &self,
        books: &mut Books,
        snapshot: &Snapshot,
        gone: &[(Arc<SeenPod>, Seconds)],
    ) -> Result<DueNow, RecordError> {
        let present = snapshot.pods.values().map(|pod| (pod, None));
        let gone = gone.iter().map(|(pod, at)| (pod, Some(*at)));
        let all: Vec<(&Arc<SeenPod>, Option<Seconds>)> = present.chain(gone).collect();
        // A pod without a record holds nothing and was never charged.
        let booked = all.iter().filter(|(pod, _)| pod.facts.record().is_some());
        let booked = booked.map(|(pod, _)| pod.facts.uid.clone()).collect();
        books.look_up(self.ledger(), booked).await?;
        self.remember_cards(books, snapshot, &all).await?;
        let mut now = DueNow::default();
        for (pod, vanished) in all {
            match self.due(books, snapshot, pod, vanished) {
                Due::Nothing => now.over.push(pod.clone()),
                Due::Later(None) => {}
                Due::Later(Some(error)) => {
                    let pod = &pod.facts;
                    tracing::warn!(namespace = pod.namespace, pod = pod.name, %error, "cannot charge a pod yet");
                }
                Due::Charge(charged) => {
                    if charged.plan.settle.is_some() {
                        now.over.push(pod.clone());
                    } else if !charged.budgets.is_empty() {
                        now.unprotected.push(pod.clone());
                    }
                    now.charged.push(*charged);
                }
            }
        }
        let failed = self.write_charges(books, &now.charged).await?;
        now.over.retain(|pod| !failed.contains(&pod.facts.uid));
        Ok(now)
    }

    fn due(
        &self,
        books: &Books,
        snapshot: &Snapshot,
        pod: &SeenPod,
        vanished: Option<Seconds>,
    ) -> Due {
        let facts = &pod.facts;
        let node = facts.node.as_ref().map(NodeName::as_str);
        let cards = node.map(|node| books.cards.of(node, &snapshot.nodes));
        let circumstances = Circumstances {
            classes: &self.0.parts.dialects.classes,
            cards: cards.as_deref().unwrap_or_default(),
            kubelet: node.map_or(Outlook::Lost(None), |node| {
                snapshot.kubelets.outlook(node, snapshot.now)
            }),
            pays: books.payers.of(&facts.namespace),
            progress: books.progress(&facts.uid),
            vanished,
            now: snapshot.now,
            grid: self.0.parts.pace.grid,
        };
        due(pod, circumstances)
    }

    /// Stores the cards of nodes with unsettled pods in the ledger, before the nodes can be deleted.
    async fn remember_cards(
        &self,
        books: &mut Books,
        snapshot: &Snapshot,
        pods: &[(&Arc<SeenPod>, Option<Seconds>)],
    ) -> Result<(), RecordError> {
        let open = pods.iter().filter(|(pod, _)| {
            let progress = books.progress(&pod.facts.uid);
            pod.facts.record().is_some() && progress.is_none_or(|progress| !progress.settled)
        });
        let needed = open.filter_map(|(pod, _)| pod.facts.node.as_ref());
        let needed: BTreeSet<&str> = needed.map(NodeName::as_str).collect();
        let wanted = books.cards.wanted(&snapshot.nodes, &needed);
        let classes = &self.0.parts.dialects.classes;
        let changes = books.cards.changes(&wanted, classes);
        if !changes.is_empty() {
            self.write(changes).await?;
            books.cards = wanted;
        }
        Ok(())
    }

    /// Writes everything. Returns the pods for which the ledger disagrees with us: they are looked up again.
    async fn write_charges(
        &self,
        books: &mut Books,
        charged: &[DueCharges],
    ) -> Result<BTreeSet<PodUid>, RecordError> {
        let mut failed = BTreeSet::new();
        let changes = charged.iter().flat_map(|charged| {
            let changes = charged.changes().into_iter();
            changes.map(|change| (charged.pod(), change))
        });
        let changes: Vec<(&PodUid, Change)> = changes.collect();
        for together in changes.chunks(TOGETHER) {
            if let Err(error) = self.write_together(together, &mut failed).await {
                for (pod, _) in &changes {
                    books.doubt(pod);
                }
                return Err(error);
            }
        }
        for charged in charged {
            if failed.contains(charged.pod()) {
                books.doubt(charged.pod());
            } else {
                self.0.metrics.charged(charged, self.clock().now());
                books.note(charged);
            }
        }
        Ok(failed)
    }

    /// Writes in one transaction. If the ledger refuses that, writes each change alone: one pod must not block others.
    async fn write_together(
        &self,
        together: &[(&PodUid, Change)],
        failed: &mut BTreeSet<PodUid>,
    ) -> Result<(), RecordError> {
        let changes = |part: &[(&PodUid, Change)]| -> Vec<Change> {
            part.iter().map(|(_, change)| change.clone()).collect()
        };
        let written = self.write(changes(together)).await;
        if !disagrees(&written) {
            return written.map(|_| ());
        }
        for single in together {
            let pod = single.0;
            if failed.contains(pod) {
                continue;
            }
            let written = self.write(changes(std::slice::from_ref(single))).await;
            if disagrees(&written) {
                failed.insert(pod.clone());
                let error = written.err().map(|error| error.to_string());
                tracing::warn!(%pod, error, "the ledger knows something else of a pod; looking again");
            } else {
                written?;
            }
        }
        Ok(())
    }
}

/// Whether the ledger understood the request but disagrees.
fn disagrees(written: &Result<Vec<Outcome>, RecordError>) -> bool {
    let Err(RecordError::Store(error)) = written else {
        return false;
    };
    matches!(
        error,
        StoreError::Apart { .. }
            | StoreError::Settled { .. }
            | StoreError::Refused(_)
            | StoreError::Money(_)
    )
}
