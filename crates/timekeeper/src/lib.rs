//! The timekeeper charges what pods hold to budgets, to the second, and publishes how budgets stand.
//!
//! ```text
//! watches ── pods, nodes, budgets, namespaces ──► View (in memory, in every replica)
//!                                                  │
//! leader ── round: plan (pure) ── ledger ──────────┤ one transaction, fenced by the term
//!             ├── finalizers off, once the end is charged
//!             └── status and Events of budgets ──► enforce: marks, gates, evictions of their pods
//! ```
//!
//! Everything that is charged comes from what is recorded on the API server, so a round can be lost, late or
//! repeated: the next one charges what is missing. Only the leader writes. If a leader was replaced, the ledger
//! refuses its writes in the same transaction.

pub mod api;
mod books;
mod cards;
pub mod clock;
pub mod config;
mod due;
pub mod enforce;
mod health;
mod kubelets;
mod leading;
mod metrics;
mod payers;
mod publishing;
mod round;
mod routes;
mod start;
mod status;
mod view;
mod watch;

use std::fmt;
use std::sync::Arc;

use gpushare_core::dialect::Dialects;
use gpushare_ledger::store::{Batch, Change, Epoch, Ledger, Outcome, StoreError};
use kube::Client;
use parking_lot::{RwLock, RwLockReadGuard};
use thiserror::Error;
use tokio::sync::{Notify, watch as watched};

use clock::Clock;
use config::Pace;
use gpushare_kube::leader::{Leadership, NotLeaderError};
use health::Health;
use metrics::Metrics;

pub use metrics::metrics;
pub use start::{StartError, start};
pub use view::{SeenPod, View};

/// The timekeeper as a value; clones share everything.
#[derive(Clone)]
pub struct Timekeeper(Arc<Shared>);

/// What a timekeeper works with.
#[derive(Debug)]
pub struct Parts {
    pub ledger: Ledger,
    pub dialects: Dialects,
    pub pace: Pace,
    pub clock: Clock,
    pub leadership: Leadership,
}

struct Shared {
    parts: Parts,
    client: Client,
    view: RwLock<View>,
    /// Counts changes of the view.
    changes: watched::Sender<u64>,
    /// The term in which this replica may write, and its number in the ledger.
    term: RwLock<Option<(u64, Epoch)>>,
    health: Health,
    /// Notified when something was written outside of the rounds.
    written: Notify,
    metrics: Metrics,
}

/// Why nothing was written.
#[derive(Debug, Error)]
pub enum RecordError {
    #[error("{0}")]
    NotLeading(NotLeaderError),
    #[error("this replica became the leader a moment ago; try again")]
    TooEarly,
    #[error("{0}")]
    Unusable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for Timekeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timekeeper")
            .field("ledger", &self.0.parts.ledger)
            .finish_non_exhaustive()
    }
}

impl Timekeeper {
    /// A timekeeper that knows nothing of the cluster yet.
    pub fn new(parts: Parts, client: Client) -> Self {
        Self(Arc::new(Shared {
            metrics: Metrics::new(&parts.leadership),
            parts,
            client,
            view: RwLock::default(),
            changes: watched::Sender::new(0),
            term: RwLock::default(),
            health: Health::default(),
            written: Notify::new(),
        }))
    }

    pub fn ledger(&self) -> &Ledger {
        &self.0.parts.ledger
    }

    pub fn client(&self) -> &Client {
        &self.0.client
    }

    pub fn clock(&self) -> &Clock {
        &self.0.parts.clock
    }

    pub fn leadership(&self) -> &Leadership {
        &self.0.parts.leadership
    }

    /// What the watches have shown. Hold it only briefly, and never across an await.
    pub fn view(&self) -> RwLockReadGuard<'_, View> {
        self.0.view.read()
    }

    /// Changes whenever the view does.
    pub fn changes(&self) -> watched::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Writes to the ledger in the current term, as the API does for grants. The budgets' status follows at once.
    pub async fn record(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, RecordError> {
        if let Some(problem) = self.0.health.problem() {
            return Err(RecordError::Unusable(problem.message));
        }
        let outcomes = self.write(changes).await?;
        self.0.written.notify_one();
        Ok(outcomes)
    }

    /// Whether requests should come here. Only the replica that writes is ready, so that a grant reaches it through
    /// the Service and every caller gets the newest figures.
    fn ready(&self) -> Result<(), String> {
        self.view().ready()?;
        let leads = self.leadership().required();
        leads.map_err(|error| error.to_string())?;
        if let Some(problem) = self.0.health.problem() {
            return Err(problem.message);
        }
        let writes = self.epoch();
        writes.map(drop).map_err(|error| error.to_string())
    }

    /// The number of the current term in the ledger.
    fn epoch(&self) -> Result<Epoch, RecordError> {
        let leads = self.leadership().required();
        let leads = leads.map_err(RecordError::NotLeading)?;
        let term = *self.0.term.read();
        let term = term.filter(|(term, _)| *term == leads);
        let (_, epoch) = term.ok_or(RecordError::TooEarly)?;
        Ok(epoch)
    }

    async fn write(&self, changes: Vec<Change>) -> Result<Vec<Outcome>, RecordError> {
        let batch = Batch::new(self.epoch()?, self.clock().now(), changes);
        let written = self.ledger().record(batch).await;
        if written.is_err() {
            self.0.metrics.ledger_failed();
        }
        Ok(written?)
    }
}
