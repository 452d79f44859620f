//! Looks for the processes of pods that are gone or ended according to the API server, until they have ended.
//!
//! It does nothing while there is no such pod.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use gpushare_core::PodUid;
use tokio::time::timeout;

use crate::cgroup::Cgroups;
use crate::state::NodeState;

/// Time between two checks of processes that still run.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs for ever.
pub async fn watch_ends(state: Arc<NodeState>, cgroups: Cgroups) {
    let mut changed = state.subscribe();
    let mut complained = false;
    loop {
        changed.borrow_and_update();
        let leaving = state.leaving();
        if !leaving.is_empty() {
            let pods: BTreeSet<PodUid> = leaving.keys().cloned().collect();
            let (groups, wanted) = (cgroups.clone(), pods.clone());
            match tokio::task::spawn_blocking(move || groups.alive(&wanted)).await {
                Ok(Ok(alive)) => {
                    complained = false;
                    state.note_processes(&leaving, &alive);
                }
                Ok(Err(error)) => {
                    if !std::mem::replace(&mut complained, true) {
                        tracing::error!(%error, "cannot find out whether containers have ended; their cards stay held");
                    }
                    state.note_processes(&leaving, &pods);
                }
                Err(error) => tracing::error!(%error, "a look for processes failed"),
            }
        }
        let next = if state.leaving().is_empty() {
            changed.changed().await
        } else {
            timeout(AGAIN, changed.changed()).await.unwrap_or(Ok(()))
        };
        if next.is_err() {
            return;
        }
    }
}
