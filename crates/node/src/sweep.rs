//! Removes what pods leave behind: the spec files of those that are gone from the node, and no others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::cdi::SlotFiles;
use crate::metrics::Metrics;
use crate::state::NodeState;

/// A file of a pod that the watch has never shown may be newer than the watch; it stays this long.
const GRACE: Duration = Duration::from_mins(1);

/// Sweeps after every change of the node's pods, and now and then. Runs for ever.
pub async fn sweep_for_ever(state: Arc<NodeState>, files: Arc<SlotFiles>, metrics: Metrics) {
    let mut changed = state.subscribe();
    loop {
        let (now, at) = (state.clone(), files.clone());
        if let Err(error) = tokio::task::spawn_blocking(move || sweep(&now, &at)).await {
            tracing::error!(%error, "a sweep of CDI specs failed");
        }
        metrics.pods_with_specs(files.pods().len());
        if let Ok(Err(_)) = timeout(GRACE, changed.changed()).await {
            return;
        }
    }
}

/// One sweep. Blocks on file operations.
fn sweep(state: &NodeState, files: &SlotFiles) {
    let mut kept = BTreeSet::new();
    for (pod, age) in files.pods() {
        let dead = match state.left(&pod) {
            None => continue,
            Some(true) => true,
            Some(false) => age.is_none_or(|age| age > GRACE),
        };
        if !dead {
            kept.insert(pod);
            continue;
        }
        match files.remove_pod(&pod) {
            Ok(count) => {
                tracing::info!(%pod, files = count, "removed the CDI specs of a pod that is gone");
            }
            Err(error) => {
                tracing::warn!(%pod, %error, "cannot clean up after a pod, trying again");
                kept.insert(pod);
            }
        }
    }
    state.swept(&kept);
}
