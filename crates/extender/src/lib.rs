//! The scheduler extender: one module per verb, around the books (`crates/books`).
//!
//! ```text
//!            filter, prioritize, inspect ── read ──┐
//! watches ── every change ────────────── write ──► Books (ledger + index, in memory)
//!            bind ── reserve, then settle ─ write ─┘
//!              └── one POST to the API server, never under the lock
//! ```
//!
//! Filter and prioritize touch memory only. Nothing is kept on disk: the records on the pods are the
//! truth, and a restart reads them again. If there are several replicas, only the leader answers, see `leading`.

mod answer;
mod bind;
pub mod config;
mod explain;
mod filter;
mod inspect;
mod leading;
mod metrics;
mod notices;
mod preempt;
mod prioritize;
mod routes;
mod sharing;
mod start;
mod telling;
mod waking;
mod watch;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use gpushare_books::{Bells, Books, RefusedPod};
use gpushare_core::dialect::Dialects;
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::Connections;
use gpushare_kube::notice::Notice;
use gpushare_kube::slim;
use gpushare_kube::watch::Index;
use kube::Client;
use parking_lot::{Mutex, RwLock};
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::watch as watched;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use gpushare_daemon::body::{BodyRoom, Limit};
use gpushare_kube::leader::Leadership;
use metrics::Metrics;
use sharing::Asks;
use watch::{Nodes, Pods};

pub use metrics::metrics;
pub use start::start;

const LARGE_BODIES: &str = "; set nodeCacheCapable: true so that the scheduler sends names only";

/// The extender; clones share everything.
#[derive(Clone)]
pub struct Extender(Arc<Shared>);

struct Shared {
    config: Config,
    dialects: Arc<Dialects>,
    books: Arc<RwLock<Books>>,
    client: Client,
    tasks: Tasks,
    metrics: Metrics,
    body_room: BodyRoom,
    asks: Mutex<Asks>,
    leadership: Leadership,
    /// The last term in which binds were opened.
    binds_open: watched::Sender<Option<u64>>,
    /// How many pods still have to be fenced before binds open.
    unfenced: AtomicUsize,
    /// Binds under way.
    binds: TaskTracker,
    /// The scheduler's connections.
    connections: Connections,
    notices: Sender<Notice>,
    /// Taken by the task that posts them.
    waiting_notices: Mutex<Option<Receiver<Notice>>>,
    refusals: Sender<RefusedPod>,
    /// Taken by the task that records them.
    waiting_refusals: Mutex<Option<Receiver<RefusedPod>>>,
    /// Rung by the books.
    bells: Bells,
}

impl fmt::Debug for Extender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extender")
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

impl Extender {
    /// An extender that knows nothing yet and follows nothing.
    pub fn new(config: Config, client: Client, tasks: Tasks) -> Self {
        let dialects = Arc::new(config.dialects.clone());
        let (notices, waiting) = notices::queue();
        let (refusals, waiting_refusals) = waking::queue();
        let bells = Bells::default();
        let books = Books::new(dialects.classes.clone(), config.policy, bells.clone());
        let books = Arc::new(RwLock::new(books));
        let leadership = match config.election {
            Some(_) => Leadership::following(),
            None => Leadership::alone(),
        };
        let metrics = Metrics::new(books.clone(), &leadership);
        let largest_body = config.max_body.map_or_else(
            || {
                let books = books.clone();
                Limit::ByNodes(Box::new(move || books.read().nodes().count()))
            },
            Limit::Fixed,
        );
        Self(Arc::new(Shared {
            connections: Connections::default().counted_by(metrics.traffic.clone()),
            metrics,
            body_room: BodyRoom::new(largest_body, LARGE_BODIES, routes::error_response),
            asks: Mutex::default(),
            config,
            dialects,
            books,
            client,
            tasks,
            leadership,
            binds_open: watched::Sender::new(None),
            unfenced: AtomicUsize::new(0),
            binds: TaskTracker::new(),
            notices,
            waiting_notices: Mutex::new(Some(waiting)),
            refusals,
            waiting_refusals: Mutex::new(Some(waiting_refusals)),
            bells,
        }))
    }

    /// Takes over a complete picture of the cluster, as the first lists of the watches would, and opens
    /// binds. For tests and tools that have no API server to follow.
    pub fn load(&self, nodes: &[slim::Node], pods: &[slim::Pod]) {
        let index = Nodes(self);
        index.replace(nodes.iter().map(|node| index.reduce(node)).collect());
        let index = Pods(self);
        index.replace(pods.iter().map(|pod| index.reduce(pod)).collect());
        if let Some(term) = self.0.leadership.term() {
            self.open_binds(term);
        }
    }

    /// Why no answers can be given now.
    fn ready(&self) -> Result<(), String> {
        if self.0.tasks.shutdown().is_cancelled() {
            return Err("shutting down".to_owned());
        }
        self.leads()?;
        self.0.books.read().ready().map_err(str::to_owned)
    }
}
