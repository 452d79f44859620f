//! Notices to the owners of pods whose request makes no sense.
//!
//! kube-scheduler asks us only about nodes that pass its own checks, so a pod that asks for ten billion
//! GiB never reaches filter: its owner would read "insufficient" and look for room. We see the pod on
//! the watch and say what is wrong with it.

use std::collections::HashSet;
use std::convert::Infallible;

use gpushare_core::PodUid;
use gpushare_kube::notice::{self, Notice};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::Extender;

/// Notices wait here while the API server is slow; past this many, new ones are dropped and come again
/// with the pod's next change.
const WAITING: usize = 1024;
/// When so many have been said they are all forgotten; the event's name still keeps them from doubling.
const REMEMBERED: usize = 10_000;

pub(super) fn queue() -> (Sender<Notice>, Receiver<Notice>) {
    channel(WAITING)
}

impl Extender {
    /// Never blocks: it is called from the watch. Only the leader speaks; whoever comes to lead lists
    /// all pods, and sees again what nobody has said yet.
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
                tracing::warn!(%error, "the owner of an invalid pod was not told");
                said.remove(&notice.pod.uid);
            }
        }
        Ok(())
    }
}
