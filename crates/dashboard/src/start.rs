//! Starting the dashboard: watches, the feed, the server.

use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::dialect::Dialects;
use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections, ListenError};
use gpushare_daemon::tls::Tls;
use jiff::Timestamp;
use kube::Client;
use parking_lot::RwLock;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::access::Access;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::model::Model;

/// Changes within this time are sent together.
const TOGETHER: Duration = Duration::from_millis(500);
/// After an update, the pause is at least this many times as long as the update took.
const REST: u32 = 4;

#[derive(Debug)]
pub struct Config {
    /// Where viewers connect; port 0 means any free port.
    pub listen: SocketAddr,
    /// Health, readiness and metrics in plain HTTP, for probes.
    pub admin_listen: Option<SocketAddr>,
    pub tls: Option<Tls>,
    pub access: Access,
    /// How this cluster interprets requests.
    pub dialects: Dialects,
    /// How often the cluster is sampled for the charts.
    pub sample_every: Duration,
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(
        "--auth none lets everybody who can connect see the dashboard, so it is for loopback addresses only, and {0} is not one"
    )]
    OpenToAll(SocketAddr),
    #[error(
        "tokens must not be sent unencrypted: give --tls-cert and --tls-key, or listen on a loopback address instead of {0}"
    )]
    Plain(SocketAddr),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot serve: {0}")]
    Serve(#[from] std::io::Error),
}

/// A handle to the dashboard; clones share everything.
#[derive(Clone)]
pub struct Dashboard(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) model: RwLock<Model>,
    pub(crate) changed: Notify,
    pub(crate) feed: Feed,
    pub(crate) access: Access,
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) shutdown: CancellationToken,
}

impl fmt::Debug for Dashboard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dashboard")
            .field("access", &self.0.access)
            .finish_non_exhaustive()
    }
}

/// Starts everything as services of the process; returns the address on which it listens.
pub fn start(client: &Client, config: Config, tasks: &Tasks) -> Result<SocketAddr, StartError> {
    let Config {
        listen,
        admin_listen,
        tls,
        access,
        dialects,
        sample_every,
    } = config;
    let loopback = listen.ip().is_loopback();
    match access {
        Access::Open if !loopback => return Err(StartError::OpenToAll(listen)),
        Access::Tokens(_) if !loopback && tls.is_none() => return Err(StartError::Plain(listen)),
        _ => {}
    }
    let listener = serve::listen(listen)?;
    let admin = admin_listen.map(serve::listen).transpose()?;
    let address = listener.local_addr()?;
    let dashboard = Dashboard::new(client.clone(), access, dialects, tasks.shutdown().clone());
    dashboard.follow(client, tasks);
    tasks.service("the feed", dashboard.clone().publish(sample_every));
    let connections = || Connections::default().counted_by(dashboard.0.metrics.traffic.clone());
    if let Some(listener) = admin {
        let (router, connections) = (dashboard.admin_router(), connections());
        serve::spawn(
            tasks,
            "the admin server",
            listener,
            None,
            router,
            connections,
        );
    }
    tracing::info!(listen = %address, tls = tls.is_some(), "the dashboard starts");
    let (router, connections) = (dashboard.router(), connections());
    serve::spawn(
        tasks,
        "the dashboard's server",
        listener,
        tls,
        router,
        connections,
    );
    Ok(address)
}

impl Dashboard {
    pub(crate) fn new(
        client: Client,
        access: Access,
        dialects: Dialects,
        shutdown: CancellationToken,
    ) -> Self {
        Self(Arc::new(Shared {
            model: RwLock::new(Model::new(dialects)),
            changed: Notify::new(),
            feed: Feed::new(Uuid::new_v4().simple().to_string()),
            access,
            client,
            metrics: Metrics::new(),
            shutdown,
        }))
    }

    /// Sends viewers what changes, at a limited rate, and samples the cluster.
    async fn publish(self, sample_every: Duration) -> Result<(), Infallible> {
        let shutdown = self.0.shutdown.clone();
        let mut next_sample = Instant::now();
        loop {
            let wait_for_sample = tokio::time::sleep_until(next_sample.into());
            tokio::select! {
                () = shutdown.cancelled() => return Ok(()),
                () = self.0.changed.notified() => {}
                () = wait_for_sample => {}
            }
            let began = Instant::now();
            let sample = began >= next_sample && self.0.model.read().ready().is_ok();
            self.0.metrics.viewers(self.0.feed.viewers());
            if sample || self.0.feed.viewers() > 0 {
                self.look(sample).await;
            }
            if began >= next_sample {
                next_sample = began + sample_every;
            }
            let pause = TOGETHER.max(began.elapsed() * REST);
            shutdown
                .run_until_cancelled(tokio::time::sleep(pause))
                .await;
        }
    }

    /// Updates the feed on a thread that does not serve requests.
    pub(crate) async fn look(&self, sample: bool) {
        let dashboard = self.clone();
        let look = move || {
            let now = Timestamp::now().as_second();
            dashboard.0.feed.update(&dashboard.0.model, now, sample);
        };
        if let Err(error) = tokio::task::spawn_blocking(look).await {
            tracing::error!(%error, "cannot look at the cluster");
        }
    }
}
