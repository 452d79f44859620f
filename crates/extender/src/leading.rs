//! What only the leader does, and when its term begins and ends.
//!
//! Every replica watches nodes and pods, so that its books are up to date; only the leader answers the scheduler.
//! Binds of an earlier leader, or of a process that was killed, may still be on their way. So a term begins with a
//! list of the pods. Then every pending pod is fenced, and only then binds open. By that time, every earlier bind is
//! void or in the books.
//!
//! A bind belongs to the term in which it was booked, and is sent in that term or not at all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt};
use gpushare_daemon::Tasks;
use gpushare_kube::fence::is_final;

use super::Extender;
use super::watch::ASK_AGAIN;
use gpushare_kube::PodRef;
use gpushare_kube::leader::election::Candidacy;

/// How long a bind waits for binds to open. After that, the answer says why they are not open.
const OPENS_WITHIN: Duration = Duration::from_secs(10);
/// How many pods are fenced at the same time when a term begins.
const FENCES_AT_ONCE: usize = 32;

impl Extender {
    /// The term in which this replica leads, or why it must not act.
    pub(super) fn leads(&self) -> Result<u64, String> {
        let required = self.0.leadership.required();
        required.map_err(|not_leading| not_leading.to_string())
    }

    /// As [`Self::leads`], for a request of the scheduler. If this replica does not lead, the scheduler must reach
    /// another one. It reuses its connections, so they are closed to make it open a new one.
    pub(super) fn may_answer(&self) -> Result<u64, String> {
        self.leads().inspect_err(|_| self.0.connections.hang_up())
    }

    /// The present term, once binds are open in it.
    pub(super) async fn open_term(&self) -> Result<u64, String> {
        let Self(shared) = self;
        let term = self.may_answer()?;
        let mut open = shared.binds_open.subscribe();
        tokio::select! {
            _opened = open.wait_for(|open| *open == Some(term)) => {}
            () = shared.leadership.ended(term) => {}
            () = shared.tasks.shutdown().cancelled() => {}
            () = tokio::time::sleep(OPENS_WITHIN) => return Err(self.why_not_open()),
        }
        self.ready()?;
        self.still_leads(term)?;
        Ok(term)
    }

    /// The present term, if binds are open in it and answers can be given.
    pub(super) fn acting_term(&self) -> Option<u64> {
        self.ready().ok()?;
        let term = self.0.leadership.term()?;
        (*self.0.binds_open.borrow() == Some(term)).then_some(term)
    }

    /// Checks that this replica still leads in the term in which the work was begun.
    pub(super) fn still_leads(&self, term: u64) -> Result<(), String> {
        match self.leads()? {
            now if now == term => Ok(()),
            _ => Err("this replica had stopped leading for a while; try again".to_owned()),
        }
    }

    fn why_not_open(&self) -> String {
        match self.0.unfenced.load(Ordering::Relaxed) {
            0 => "binds are not open yet: the pods are not listed".to_owned(),
            left => format!(
                "binds are not open yet: the status of {left} pending pods must be changed first, so that no bind of \
                 an earlier leader takes effect; the log says what keeps them"
            ),
        }
    }

    /// Opens binds once no bind that was sent before the term can take effect any more. The pods must have been
    /// listed in the term.
    pub(super) fn open_when_fenced(&self, term: u64) {
        let extender = self.clone();
        let work = async move {
            let leadership = &extender.0.leadership;
            tokio::select! {
                () = extender.fence_all() => extender.open_binds(term),
                () = leadership.ended(term) => {}
            }
        };
        let shutdown = self.0.tasks.shutdown().clone();
        self.0
            .tasks
            .job(async move { shutdown.run_until_cancelled(work).await });
    }

    /// Fences all pods that wait for a node.
    async fn fence_all(&self) {
        let pods: Vec<PodRef> = {
            let books = self.0.books.read();
            books
                .pods()
                .pending()
                .map(|known| known.pod.clone())
                .collect()
        };
        let count = pods.len();
        let left = &AtomicUsize::new(count);
        self.0.unfenced.store(count, Ordering::Relaxed);
        let fence = |pod: PodRef| async move {
            self.fence_until_answered(&pod).await;
            let before = left.fetch_sub(1, Ordering::Relaxed);
            self.0
                .unfenced
                .store(before.saturating_sub(1), Ordering::Relaxed);
        };
        stream::iter(pods)
            .for_each_concurrent(FENCES_AT_ONCE, fence)
            .await;
        tracing::info!(
            pods = count,
            "no earlier bind of a pending pod can take effect"
        );
    }

    async fn fence_until_answered(&self, pod: &PodRef) {
        loop {
            match self.fence(pod).await {
                Ok(_) => return,
                Err(error) if is_final(&error) => {
                    tracing::warn!(
                        %error,
                        "an earlier bind of the pod cannot be ruled out, because the API server cannot \
                         change it; the agent of its node still counts the cards"
                    );
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, "binds stay closed; trying again");
                    tokio::time::sleep(ASK_AGAIN).await;
                }
            }
        }
    }

    pub(super) fn open_binds(&self, term: u64) {
        tracing::info!(term, "binds are open");
        self.0.binds_open.send_modify(|open| {
            *open = (*open).max(Some(term));
        });
        self.0.bells.preempt.notify_one();
        // The previous leader may have refused pods that would fit now.
        self.0.books.write().await_all_pending(Instant::now());
    }

    /// Takes part in the election, if there is one, as a service of the process.
    pub(super) fn stand_for_election(&self, tasks: &Tasks) {
        let Self(shared) = self;
        let Some(election) = shared.config.election.clone() else {
            return;
        };
        let candidacy = Candidacy::new(election, shared.client.clone(), shared.leadership.clone());
        let (quiet, connections) = (self.clone().quiet(), shared.connections.clone());
        let shutdown = tasks.shutdown().clone();
        let books = shared.books.clone();
        let lost = move || {
            connections.hang_up();
            books.write().stop_preempting();
        };
        tasks.service("the leader election", candidacy.run(shutdown, quiet, lost));
    }

    /// Waits, after shutdown has begun, until every bind in progress is answered. The next leader fences the pods
    /// whose binds were not answered.
    async fn quiet(self) {
        self.0.binds.close();
        self.0.binds.wait().await;
    }
}
