//! What only the leader does, and from when until when.
//!
//! Every replica follows nodes and pods, so that its books are warm; only the leader answers the
//! scheduler. Whoever begins to lead knows that no bind of an earlier leader can take effect any more,
//! but its watch may not have shown them all: binds open when the pods have been listed once more.
//!
//! A bind belongs to the term in which it was booked, and is sent in that term or not at all.

use std::time::Instant;

use futures::stream::{self, BoxStream, StreamExt};
use gpushare_daemon::Tasks;
use gpushare_kube::bind::surely_over;

use super::Extender;
use crate::leader::election::Candidacy;

impl Extender {
    /// The term in which this replica leads, or why it must not act.
    pub(super) fn leads(&self) -> Result<u64, String> {
        let required = self.0.leadership.required();
        required.map_err(|not_leading| not_leading.to_string())
    }

    /// As [`Self::leads`], for a request of the scheduler, which must ask another replica if this one
    /// does not lead. It keeps its connections, so it is made to open a new one.
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

    /// Whether the term goes on in which something was begun.
    pub(super) fn still_leads(&self, term: u64) -> Result<(), String> {
        match self.leads()? {
            now if now == term => Ok(()),
            _ => Err("this replica had stopped leading for a while; try again".to_owned()),
        }
    }

    /// For each of these the pods are to be listed before its binds are opened.
    ///
    /// A process alone has no lease to wait for: a predecessor that was killed may have a bind under
    /// way, sent, but not yet carried out. The list is made when that must be over.
    pub(super) fn terms(&self) -> BoxStream<'static, u64> {
        let Self(shared) = self;
        let terms = shared.leadership.terms();
        if shared.config.election.is_some() {
            return terms.boxed();
        }
        let pause = surely_over(shared.config.bind_timeout);
        let paused = async move {
            tokio::time::sleep(pause).await;
            terms
        };
        stream::once(paused).flatten().boxed()
    }

    pub(super) fn open_binds(&self, term: u64) {
        tracing::info!(term, "binds are open");
        self.0.binds_open.send_replace(Some(term));
        self.0.bells.preempt.notify_one();
        // Whoever led before may have refused pods that would fit now.
        self.0.state.write().await_all_pending(Instant::now());
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
        let state = shared.state.clone();
        let lost = move || {
            connections.hang_up();
            state.write().stop_preempting();
        };
        tasks.service("the leader election", candidacy.run(shutdown, quiet, lost));
    }

    /// Waits, after shutdown began, until no bind of ours can take effect any more.
    async fn quiet(self) {
        self.0.binds.close();
        self.0.binds.wait().await;
        let doubtful_until = self.0.state.read().doubtful_until();
        if let Some(until) = doubtful_until.filter(|until| *until > Instant::now()) {
            tokio::time::sleep_until(until.into()).await;
        }
    }
}
