//! The dashboard as a role of the control plane: its configuration and how it is started.

pub mod config;

use gpushare_daemon::Tasks;
use gpushare_daemon::tls::Tls;
use gpushare_daemon::tls::TlsError;
use gpushare_kube::client::{self, ClientError};
use thiserror::Error;

use crate::access::Access;
use config::{Auth, Config};

/// What can prevent the role from starting.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Dashboard(#[from] crate::StartError),
}

/// Starts everything as services of the process.
pub async fn start(config: Config, tasks: &Tasks) -> Result<(), StartError> {
    let client = client::connect(config.kubeconfig.as_deref()).await?;
    let access = match config.auth {
        Auth::None => Access::Open,
        Auth::Token => Access::tokens(client.clone()),
    };
    let settings = crate::Config {
        listen: config.listen,
        admin_listen: config.admin_listen,
        tls: config.tls.map(Tls::load).transpose()?,
        access,
        dialects: config.dialects,
        sample_every: config.sample_every,
    };
    crate::start(&client, settings, tasks)?;
    Ok(())
}
