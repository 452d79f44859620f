//! The dashboard as a role of the control plane: its configuration and how it is started.

pub mod config;

use gpushare_daemon::Tasks;
use gpushare_kube::start::{self, identify};
use thiserror::Error;

use crate::access::Access;
use config::{Auth, Config};

/// What can prevent the role from starting.
#[derive(Debug, Error)]
pub enum StartError {
    /// As in any role.
    #[error(transparent)]
    Role(#[from] start::StartError),
    #[error(transparent)]
    Dashboard(#[from] crate::StartError),
}

/// Starts everything as services of the process.
pub async fn start(config: Config, tasks: &Tasks) -> Result<(), StartError> {
    let (client, tls) = identify(config.kubeconfig.as_deref(), config.tls).await?;
    let access = match config.auth {
        Auth::None => Access::Open,
        Auth::Token => Access::tokens(client.clone()),
    };
    let settings = crate::Config {
        listen: config.listen,
        admin_listen: config.admin_listen,
        tls,
        access,
        dialects: config.dialects,
        sample_every: config.sample_every,
    };
    crate::start(&client, settings, tasks)?;
    Ok(())
}
