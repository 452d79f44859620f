//! Pods that disappeared unseen: the finalizer was removed by force, or there was none, while no timekeeper watched.

use gpushare_kube::slim;
use gpushare_ledger::store::{Change, MeteredPod, Settlement};
use kube::{Api, ResourceExt};

use super::{RecordError, Snapshot, Timekeeper};
use crate::books::Books;
use crate::config::WRITE_TIMEOUT;

/// How many are looked up in one round; the others follow in the next.
const MOST: usize = 32;

impl Timekeeper {
    /// Settles these pods where their last charge ended, because nothing more is known.
    pub(super) async fn end_lost(
        &self,
        books: &mut Books,
        snapshot: &Snapshot,
    ) -> Result<(), RecordError> {
        for lost in books.lost(&snapshot.pods).into_iter().take(MOST) {
            // The watch may be late, so the API server is queried.
            if !self.is_gone(&lost).await {
                continue;
            }
            let (pod, through) = (lost.pod.clone(), lost.through);
            let settlement = Settlement {
                pod: lost.pod,
                namespace: lost.namespace,
                name: lost.name,
                end: through,
            };
            tracing::warn!(%pod, through, "a pod went without a word; it is charged up to what is known of it");
            self.write(vec![Change::Settle(settlement)]).await?;
            self.0.metrics.vanished();
            books.settled(&pod);
        }
        Ok(())
    }

    async fn is_gone(&self, pod: &MeteredPod) -> bool {
        let api: Api<slim::Pod> = Api::namespaced(self.client().clone(), &pod.namespace);
        let read = tokio::time::timeout(WRITE_TIMEOUT, api.get_opt(&pod.name)).await;
        match read {
            Ok(Ok(found)) => {
                let uid = found.and_then(|found| found.uid());
                uid.as_deref() != Some(pod.pod.as_str())
            }
            Ok(Err(error)) => {
                tracing::warn!(pod = %pod.pod, %error, "cannot ask for a pod that is not shown");
                false
            }
            Err(_elapsed) => false,
        }
    }
}
