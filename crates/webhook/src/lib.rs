//! The admission webhook reports what is wrong with a request before the pod exists, fills in what is left out,
//! and lets the budget decide the priority.
//!
//! ```text
//! API server ── POST /mutate ──► review ── decide (pure) ──► one patch, or everything that is wrong
//! watches ── budgets, namespaces, priority classes ──► View (in memory)
//! pki ── Secret, shared by replicas ──► certificate, and the caBundle by which the API server trusts it
//! ```
//!
//! Reviews are answered from memory, without calls and without writes, so dry runs are like any other. A review waits
//! only for the webhook's own watches, and only for a moment. Safety does not depend on the webhook: the extender
//! refuses invalid requests too.

pub mod config;
pub mod decide;
mod fill;
mod metrics;
pub mod patch;
mod pki;
pub mod priority;
mod review;
mod routes;
pub mod sidecar;
mod start;
mod view;
mod watch;

use std::fmt;
use std::sync::{Arc, OnceLock};

use parking_lot::RwLock;
use tokio::sync::Notify;

use decide::Rules;
use gpushare_daemon::body::{BodyRoom, Limit};
use metrics::Metrics;
use pki::Keeper;
use view::View;

pub use metrics::metrics;
pub use pki::{Lifetimes, Settings};
pub use start::start;

/// The webhook as a value; clones share everything.
#[derive(Clone)]
pub struct Webhook(Arc<Shared>);

struct Shared {
    rules: Rules,
    view: RwLock<View>,
    /// Notified when the view changes.
    changed: Notify,
    /// Not set if certificates come from files.
    keeper: OnceLock<Keeper>,
    metrics: Metrics,
    body_room: BodyRoom,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("rules", &self.0.rules)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// A webhook that knows nothing of the cluster yet.
    pub fn new(rules: Rules, max_body: usize) -> Self {
        Self(Arc::new(Shared {
            rules,
            view: RwLock::default(),
            changed: Notify::new(),
            keeper: OnceLock::new(),
            metrics: Metrics::new(),
            body_room: BodyRoom::new(Limit::Fixed(max_body), "", routes::refuse),
        }))
    }
}
