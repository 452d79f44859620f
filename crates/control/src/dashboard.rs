//! The role that serves the dashboard: its configuration and how it is started. What it shows is in
//! `gpushare_dashboard`.

pub mod config;

use gpushare_daemon::Tasks;
use gpushare_daemon::tls::Tls;
use gpushare_dashboard::access::Access;

use crate::client;
use crate::start::StartError;
use config::{Auth, Config};

/// Starts everything as services of the process.
pub async fn start(config: Config, tasks: &Tasks) -> Result<(), StartError> {
    let client = client::connect(config.kubeconfig.as_deref()).await?;
    let access = match config.auth {
        Auth::None => Access::Open,
        Auth::Token => Access::tokens(client.clone()),
    };
    let settings = gpushare_dashboard::Config {
        listen: config.listen,
        admin_listen: config.admin_listen,
        tls: config.tls.map(Tls::load).transpose()?,
        access,
        dialects: config.dialects,
        sample_every: config.sample_every,
    };
    gpushare_dashboard::start(&client, settings, tasks)?;
    Ok(())
}
