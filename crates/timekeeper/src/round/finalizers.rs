//! Removes the finalizer from settled pods, and adds it to pods that a budget pays for.

use std::sync::Arc;

use futures::{StreamExt, stream};
use gpushare_kube::finalizer::{self, Finalizer, PatchOutcome};

use super::Timekeeper;
use super::charging::DueNow;
use crate::view::SeenPod;

/// Requests at the same time.
const AT_ONCE: usize = 16;

impl Timekeeper {
    pub(super) async fn change_finalizers(&self, due: &DueNow) {
        let off = due.over.iter().filter(|pod| pod.pod.awaits_metering());
        let off = off.map(|pod| (pod.clone(), Finalizer::Off));
        // The webhook adds the finalizer to new pods. Pods that are older than their budget get it here.
        let unprotected = due.unprotected.iter();
        let on = unprotected.filter(|pod| !pod.pod.awaits_metering() && !pod.facts.deleting);
        let on = on.map(|pod| (pod.clone(), Finalizer::On));
        let changes: Vec<(Arc<SeenPod>, Finalizer)> = off.chain(on).collect();
        stream::iter(changes)
            .for_each_concurrent(AT_ONCE, |(pod, to)| self.change_finalizer(pod, to))
            .await;
    }

    async fn change_finalizer(&self, pod: Arc<SeenPod>, to: Finalizer) {
        let facts = &pod.facts;
        // The ledger refuses the writes of a former leader. The API server does not, so the lease is checked here.
        if self.leadership().term().is_none() {
            return;
        }
        let reference = facts.reference();
        let changed = finalizer::change(self.client(), &reference, &facts.version, to);
        match changed.await {
            Ok(PatchOutcome::Done | PatchOutcome::Gone) => {}
            Err(error) => {
                self.0.metrics.finalizer_failed();
                tracing::warn!(%error, "a pod's finalizer stays as it is; trying again");
            }
        }
    }
}
