//! Starting the webhook: client, watches, certificates, servers.

use std::net::SocketAddr;

use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};
use gpushare_daemon::tls::{Slot, Tls, TlsError};
use kube::Client;

use super::Webhook;
use super::config::{Certificates, Config};
use super::decide::Rules;
use super::pki::Keeper;
use gpushare_kube::client;
use gpushare_kube::start::StartError;

/// Starts everything as services of the process. Returns the address on which it serves.
pub async fn start(config: Config, tasks: &Tasks) -> Result<SocketAddr, StartError> {
    let client = client::connect(config.kubeconfig.as_deref()).await?;
    let rules = Rules {
        dialects: config.dialects,
        band: config.band,
        sidecar: config.sidecar,
    };
    let webhook = Webhook::new(rules, config.max_body);
    let tls = webhook.certificates(config.certificates, &client, tasks)?;
    let listener = serve::listen(config.listen)?;
    let admin = config.admin_listen.map(serve::listen).transpose()?;
    let address = listener.local_addr()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), listen = %address,
        own_certificates = webhook.0.keeper.get().is_some(), "the webhook starts"
    );
    webhook.follow(&client, tasks);
    let connections = || Connections::default().counted_by(webhook.0.metrics.traffic.clone());
    if let Some(listener) = admin {
        tracing::info!(admin_listen = %listener.local_addr()?, "probes and metrics in plain HTTP");
        let (router, connections) = (webhook.admin_router(), connections());
        let name = "the admin server";
        serve::spawn(tasks, name, listener, None, router, connections);
    }
    let (router, connections) = (webhook.router(), connections());
    serve::spawn(
        tasks,
        "the server",
        listener,
        Some(tls),
        router,
        connections,
    );
    Ok(address)
}

impl Webhook {
    fn certificates(
        &self,
        certificates: Certificates,
        client: &Client,
        tasks: &Tasks,
    ) -> Result<Tls, TlsError> {
        match certificates {
            Certificates::Files(files) => Tls::load(files),
            Certificates::Own {
                settings,
                client_ca,
            } => {
                let slot = Slot::default();
                let keeper = Keeper::new(settings, client.clone(), slot.clone());
                keeper.start(tasks);
                let _the_first = self.0.keeper.set(keeper);
                Tls::from_slot(slot, client_ca)
            }
        }
    }
}
