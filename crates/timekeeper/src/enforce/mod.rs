//! What happens to pods when their budget is exhausted, and when there is budget again.
//!
//! ```text
//! View ──► plan (pure) ──► act ──► marks, gates, evictions, Events
//!   ▲                                │
//!   └─ what is recorded on the pods ◄┘
//! ```
//!
//! Only the leader acts, and it checks before each action whether it still leads. It keeps no state that the next leader
//! needs, because the pods show what is left to do. The status of a budget says whether the budget is exhausted; that
//! is not decided here.

mod act;
mod gates;
pub mod plan;
mod say;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use gpushare_core::PodUid;
use gpushare_daemon::Tasks;
use gpushare_kube::enforcement::Subject;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Timekeeper, View};
use act::Attempt;
use plan::{Cluster, Plan, What, plan};

/// The minimum pause between two rounds, however much happens.
const PACE: Duration = Duration::from_millis(500);
/// How often the clock is checked while an eviction is pending, because somebody may set the clock.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Enforces budgets; clones share everything.
#[derive(Clone, Debug)]
pub struct Enforcer {
    timekeeper: Timekeeper,
    attempts: Arc<Mutex<HashMap<PodUid, Attempt>>>,
}

impl Enforcer {
    pub fn new(timekeeper: Timekeeper) -> Self {
        Self {
            timekeeper,
            attempts: Arc::default(),
        }
    }

    /// Enforces while this replica leads, as a service of the process.
    pub fn start(&self, tasks: &Tasks) {
        let (enforcer, shutdown) = (self.clone(), tasks.shutdown().clone());
        tasks.service("the enforcement of budgets", async move {
            shutdown.run_until_cancelled(enforcer.enforce()).await;
            Ok::<(), Infallible>(())
        });
    }

    async fn enforce(self) {
        let leadership = self.timekeeper.leadership();
        let mut terms = leadership.terms();
        while let Some(term) = terms.next().await {
            tokio::select! {
                () = leadership.ended(term) => {}
                never = self.enforce_in(term) => match never {},
            }
        }
    }

    async fn enforce_in(&self, term: u64) -> Infallible {
        let mut changes = self.timekeeper.changes();
        loop {
            changes.mark_unchanged();
            let again = self.round(term).await;
            tokio::time::sleep(PACE).await;
            // The timekeeper keeps the sender, so this cannot fail.
            let something = async {
                let _happened = changes.changed().await;
            };
            match again {
                Some(again) => {
                    let _happened_or_due =
                        tokio::time::timeout_at(Instant::into(again), something).await;
                }
                None => something.await,
            }
        }
    }

    /// What is to be done now; `None` before everything was listed.
    fn plan(&self) -> Option<Plan> {
        let now = Timestamp::from_second(self.timekeeper.clock().now()).ok()?;
        let view = self.timekeeper.view();
        let View {
            budgets: Some(budgets),
            namespaces: Some(namespaces),
            pods: Some(pods),
            ..
        } = &*view
        else {
            return None;
        };
        let pods = pods.values();
        let dialects = &self.timekeeper.0.parts.dialects;
        let cluster = Cluster {
            budgets,
            namespaces,
            pods: pods
                .filter_map(|seen| Subject::of(&seen.pod, &seen.facts, dialects))
                .collect(),
        };
        let mut plan = plan(&cluster, now);
        // While the ledger cannot be used, no budget can be replenished, so no pod is evicted because of its budget.
        if self.timekeeper.0.health.problem().is_some() {
            plan.actions.retain(|action| action.what != What::Evict);
        }
        Some(plan)
    }
}
