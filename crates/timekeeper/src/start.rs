//! Starting the timekeeper: client, ledger, watches, election, servers.

use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::Tls;

use super::config::Config;
use super::enforce::Enforcer;
use super::{Parts, Timekeeper};
use gpushare_daemon::causes::with_causes;
use gpushare_kube::client;
use gpushare_kube::leader::Leadership;
use gpushare_kube::start;
use gpushare_ledger::store::StoreError;
use thiserror::Error;

/// What can keep the timekeeper from starting.
#[derive(Debug, Error)]
pub enum StartError {
    /// As in any role.
    #[error(transparent)]
    Role(#[from] start::StartError),
    #[error("{}", with_causes(.0))]
    Store(#[from] StoreError),
    #[error("cannot serve: {0}")]
    Serve(#[from] std::io::Error),
}

/// Starts everything as services of the process.
pub async fn start(config: Config, tasks: &Tasks) -> Result<(), StartError> {
    let opened = async {
        let client = client::connect(config.kubeconfig.as_deref()).await?;
        let tls = config.tls.map(Tls::load).transpose()?;
        let listener = serve::listen(config.listen)?;
        let admin = config.admin_listen.map(serve::listen).transpose()?;
        Ok::<_, start::StartError>((client, tls, listener, admin))
    };
    let (client, tls, listener, admin) = opened.await?;
    let ledger = config.database.open_or_wait().await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), listen = %listener.local_addr()?, tls = tls.is_some(),
        database = ?config.database, pace = ?config.pace, clock = ?config.clock, "the timekeeper starts"
    );
    let leadership = match config.election {
        Some(_) => Leadership::following(),
        None => Leadership::alone(),
    };
    let parts = Parts {
        ledger,
        dialects: config.dialects,
        pace: config.pace,
        clock: config.clock,
        leadership,
    };
    let timekeeper = Timekeeper::new(parts, client);
    timekeeper.follow(tasks);
    timekeeper.lead(config.election, tasks);
    Enforcer::new(timekeeper.clone()).start(tasks);
    let connections = || Connections::default().counted_by(timekeeper.0.metrics.traffic.clone());
    if let Some(listener) = admin {
        tracing::info!(admin_listen = %listener.local_addr()?, "probes and metrics in plain HTTP");
        let (router, connections) = (timekeeper.admin_router(), connections());
        let name = "the admin server";
        serve::spawn(tasks, name, listener, None, router, connections);
    }
    let (router, connections) = (timekeeper.router(), connections());
    serve::spawn(tasks, "the server", listener, tls, router, connections);
    Ok(())
}
