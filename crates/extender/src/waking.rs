//! Waking pods for which room has appeared. kube-scheduler does not learn that a card is free again, so a pod that
//! only the extender refused would wait until something else happens in the cluster.
//!
//! Refusals come from filter, which must not wait for anything. Growth comes from the books, which ring a bell.
//! Changes within a short time lead to one look at all waiting pods. A round wakes a limited number of pods, best
//! first, and a pod that is woken in vain pauses longer each time.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use gpushare_books::{Moment, RefusedPod};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::wake::{PatchOutcome, wake};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Extender;
use gpushare_kube::PodRef;

/// How many refusals can wait to be noted. If the queue is full, the filter request notes its refusal itself.
const UNNOTED: usize = 64;
/// Changes within this time lead to one round.
const BURST: Duration = Duration::from_millis(100);
/// How many pods are woken in one round at most, and how many of them at the same time.
const IN_ONE_ROUND: usize = 64;
const AT_ONCE: usize = 8;

pub(super) fn queue() -> (Sender<RefusedPod>, Receiver<RefusedPod>) {
    channel(UNNOTED)
}

impl Extender {
    /// Filter offered none of these nodes to the pod at that moment.
    pub(super) fn refused<'a>(
        &self,
        pod: PodFacts,
        nodes: impl Iterator<Item = &'a str>,
        moment: Moment,
    ) {
        let Some(refused) = RefusedPod::new(pod, nodes, moment) else {
            return;
        };
        if let Err(full_or_closed) = self.0.refusals.try_send(refused) {
            self.note(full_or_closed.into_inner());
        }
    }

    fn note(&self, refused: RefusedPod) {
        // Finding the nodes takes longest, so it happens under the read lock, which others can share.
        let candidates = self.0.books.read().numbered(&refused);
        let mut books = self.0.books.write();
        books.refused(refused, candidates, Instant::now());
    }

    pub(super) async fn note_refusals(
        self,
        mut refusals: Receiver<RefusedPod>,
    ) -> Result<(), Infallible> {
        let shutdown = self.0.tasks.shutdown().clone();
        while let Some(Some(refused)) = shutdown.run_until_cancelled(refusals.recv()).await {
            self.note(refused);
        }
        Ok(())
    }

    /// Wakes waiting pods for which there is room, until shutdown.
    pub(super) async fn wake_waiting(self) -> Result<(), Infallible> {
        let shutdown = self.0.tasks.shutdown().clone();
        let work = async {
            let mut next = None;
            loop {
                self.bell_or(next).await;
                tokio::time::sleep(BURST).await;
                next = if self.may_wake() {
                    self.wake_round().await
                } else {
                    None
                };
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn bell_or(&self, next: Option<Instant>) {
        let rung = self.0.bells.wake.notified();
        match next {
            Some(next) => {
                let _rung_or_due = tokio::time::timeout_at(next.into(), rung).await;
            }
            None => rung.await,
        }
    }

    /// Woken pods come back to be bound, so binds must be open.
    fn may_wake(&self) -> bool {
        self.acting_term().is_some()
    }

    /// Returns when to look again even if nothing happens.
    async fn wake_round(&self) -> Option<Instant> {
        let outlook = {
            let now = Instant::now();
            self.0.books.write().end_prospects(now);
            self.0.books.read().outlook(now)
        };
        // Planning takes a while with many pods and nodes.
        let planned = tokio::task::spawn_blocking(move || outlook.plan(IN_ONE_ROUND)).await;
        let plan = match planned {
            Ok(plan) => plan,
            Err(error) => {
                tracing::error!(%error, "whom to wake could not be decided");
                return None;
            }
        };
        let next = if plan.unfinished {
            Some(Instant::now())
        } else {
            plan.next
        };
        let woken = self.0.books.write().note_plan(plan, Instant::now());
        stream::iter(woken)
            .for_each_concurrent(AT_ONCE, |pod| self.wake(pod))
            .await;
        next
    }

    /// Makes the scheduler try the pod again.
    pub(super) async fn wake(&self, pod: PodRef) {
        let Self(shared) = self;
        // A round takes a while, and this replica may have stopped leading. The next leader looks at all waiting
        // pods, and that may be this replica again.
        if !self.may_wake() {
            shared.books.write().wake_failed(&pod.uid);
            return;
        }
        let uid = &pod.uid;
        let now = jiff::Timestamp::now();
        match wake(&shared.client, &pod, now).await {
            Ok(PatchOutcome::Done) => {
                shared.metrics.woken("woken");
                tracing::info!(%pod, %uid, "woken: it would fit now");
            }
            Ok(PatchOutcome::Gone) => {
                shared.metrics.woken("gone");
                shared.books.write().stop_waiting(uid);
            }
            Err(error) => {
                shared.metrics.woken("failed");
                tracing::warn!(%error, "a pod that would fit was not woken; it will be tried again");
                shared.books.write().wake_failed(uid);
            }
        }
    }
}
