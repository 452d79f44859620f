//! The HTTP API of budgets: what remains, statements, grants, and everything for export.
//!
//! ```text
//! request ── TokenReview ──► who ── SubjectAccessReview ──► may ──► ledger and the timekeeper's memory ──► JSON
//! ```
//!
//! The API server decides who the caller is and what it may do; the ledger knows what was used. No request can report
//! usage, and only a grant changes anything. Access is checked before anything is looked up, so a refusal is the same
//! whether the object exists or not.

mod access;
mod answers;
mod balance;
mod export;
pub mod grant_request;
mod grants;
mod legacy;
mod limit;
mod memory;
mod metrics;
pub mod openapi;
mod problem;
mod rights;
mod routes;
mod statement;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use gpushare_core::PodUid;
use gpushare_ledger::Seconds;
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::policy::Policy;
use gpushare_ledger::store::{Change, Ledger, Outcome, StoreError};
use kube::Client;
use thiserror::Error;

use access::Access;
use limit::Limiter;
pub use metrics::Metrics;
pub use routes::routes;

/// What the API needs from the timekeeper. Only writes wait for anything.
pub trait Books: Send + Sync + 'static {
    fn now(&self) -> Seconds;

    /// Fails with the reason if nothing can be answered yet.
    fn ready(&self) -> Result<(), String>;

    fn payer(&self, namespace: &str) -> Payer;

    fn budget(&self, name: &str) -> Option<Budget>;

    /// The names of all budgets, in order.
    fn budgets(&self) -> Vec<String>;

    /// `likely` is the uid of a pod that is probably the requested one.
    fn pod(&self, namespace: &str, name: &str, likely: Option<&PodUid>) -> Option<Pod>;

    /// Writes to the ledger, if this process is the writer.
    fn record(&self, change: Change) -> Recording<'_>;
}

pub type Recording<'a> = Pin<Box<dyn Future<Output = Result<Outcome, RecordingError>> + Send + 'a>>;

#[derive(Debug, Error)]
pub enum RecordingError {
    #[error("{0}")]
    NotTheWriter(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who pays for a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payer {
    /// There is no such namespace.
    Unknown,
    Nobody,
    /// Several budgets select it with equal precedence.
    Ambiguous,
    Budget(String),
}

/// A budget as the timekeeper understands it now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    pub name: String,
    pub policy: Policy,
    /// From its parent to the root.
    pub ancestors: Vec<String>,
    /// Accrued by what runs now and not charged yet.
    pub held: Amount,
    /// What was charged when `held` was counted, in the span that begins then. If `None`, the ledger's sum counts.
    pub used: Option<(Seconds, Amount)>,
    /// What accrues with each second from now on.
    pub rate: Rate,
}

/// A pod that is metered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    pub evict_at: Option<Seconds>,
}

/// The API as a value; clones share everything.
#[derive(Clone)]
pub struct Api(Arc<Shared>);

struct Shared {
    books: Box<dyn Books>,
    ledger: Ledger,
    access: Access,
    limiter: Limiter,
    metrics: Metrics,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    pub fn new(books: impl Books, ledger: Ledger, client: Client, metrics: Metrics) -> Self {
        Self(Arc::new(Shared {
            books: Box::new(books),
            ledger,
            access: Access::new(client),
            limiter: Limiter::default(),
            metrics,
        }))
    }
}
