//! Removes what pods leave behind: the spec files of pods that are gone from the node with all their processes, and no
//! other files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use crate::cdi::SlotFiles;
use crate::metrics::Metrics;
use crate::state::NodeState;

/// A file of a pod that the watch has never shown stays this long: the watch may be behind.
const GRACE: Duration = Duration::from_mins(1);

/// Sweeps after every change of the node's pods, and at least every minute. Runs for ever.
pub async fn sweep_for_ever(state: Arc<NodeState>, files: Arc<SlotFiles>, metrics: Metrics) {
    let mut changed = state.subscribe();
    loop {
        let (now, at) = (state.clone(), files.clone());
        match tokio::task::spawn_blocking(move || sweep(&now, &at)).await {
            Ok(left) => metrics.pods_with_specs(left),
            Err(error) => tracing::error!(%error, "a sweep of CDI specs failed"),
        }
        if let Ok(Err(_)) = timeout(GRACE, changed.changed()).await {
            return;
        }
    }
}

/// One sweep. Returns how many pods still have files. Blocks on file operations.
fn sweep(state: &NodeState, files: &SlotFiles) -> usize {
    let gone = state.take_gone();
    let mut later = BTreeSet::new();
    let mut left = 0;
    for (pod, age) in files.pods() {
        let expired = || age.is_none_or(|age| age > GRACE);
        if !state.is_missing(&pod) || !(gone.contains(&pod) || expired()) {
            // Its containers may still run, or it may be new.
            later.extend(gone.contains(&pod).then(|| pod.clone()));
            left += 1;
            continue;
        }
        match files.remove_pod(&pod) {
            Ok(count) => {
                tracing::info!(%pod, files = count, "removed the CDI specs of a pod that is gone");
            }
            Err(error) => {
                tracing::warn!(%pod, %error, "cannot clean up after a pod, trying again");
                later.insert(pod);
                left += 1;
            }
        }
    }
    state.put_back(later);
    left
}
