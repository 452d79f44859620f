//! Notices to the owners of pods whose request is invalid.
//!
//! kube-scheduler calls filter only with nodes that pass its own checks. A pod that asks for ten billion GiB never
//! gets that far: its owner would read "insufficient" and look for room. The extender sees the pod on the watch and
//! reports what is wrong with it.

use std::collections::HashSet;
use std::convert::Infallible;

use gpushare_core::PodUid;
use gpushare_kube::notice::{self, Notice};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Extender;

/// How many notices can wait while the API server is slow. Further ones are dropped, and come again with the pod's
/// next change.
const WAITING: usize = 1024;
/// How many pods are remembered as notified. Then all are forgotten: a repeated notice only updates the Event of the
/// same name.
const REMEMBERED: usize = 10_000;

pub(super) fn queue() -> (Sender<Notice>, Receiver<Notice>) {
    channel(WAITING)
}

impl Extender {
    /// Never blocks, because the watch calls it. Only the leader posts notices. A new leader lists all pods, and so
    /// finds every invalid pod again.
    pub(super) fn notify(&self, notice: Notice) {
        if self.0.leadership.term().is_none() {
            return;
        }
        if self.0.notices.try_send(notice).is_err() {
            tracing::debug!("too many notices wait; one was dropped");
        }
    }

    /// Posts notices one after the other, each once.
    pub(super) async fn post_notices(
        self,
        mut waiting: Receiver<Notice>,
    ) -> Result<(), Infallible> {
        let shutdown = self.0.tasks.shutdown().clone();
        let mut said: HashSet<PodUid> = HashSet::new();
        while let Some(Some(notice)) = shutdown.run_until_cancelled(waiting.recv()).await {
            if said.len() >= REMEMBERED {
                said.clear();
            }
            if !said.insert(notice.pod.uid.clone()) {
                continue;
            }
            tracing::info!(pod = %notice.pod, reason = notice.message, "invalid request");
            let posted = notice::post(&self.0.client, &notice, 1, jiff::Timestamp::now());
            if let Some(Err(error)) = shutdown.run_until_cancelled(posted).await {
                tracing::warn!(%error, "cannot write the event about an invalid pod");
                said.remove(&notice.pod.uid);
            }
        }
        Ok(())
    }
}
