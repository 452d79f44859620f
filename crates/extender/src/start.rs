//! Starting the extender: client, watches, servers.

use std::net::SocketAddr;

use gpushare_daemon::Tasks;
use gpushare_daemon::serve::{self, Connections};

use super::Extender;
use crate::config::Config;
use gpushare_kube::leader::election::Election;
use gpushare_kube::start::{StartError, identify};

/// Starts everything as services of the process. Returns the address at which it serves.
pub async fn start(config: Config, tasks: &Tasks) -> Result<SocketAddr, StartError> {
    let (client, tls) = identify(config.kubeconfig.as_deref(), config.tls.clone()).await?;
    let listener = serve::listen(config.listen)?;
    let admin = config.admin_listen.map(serve::listen).transpose()?;
    let address = listener.local_addr()?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), listen = %address, tls = tls.is_some(),
        aliyun_memory_unit = config.aliyun_unit.name(), bind_timeout = ?config.bind_timeout,
        "the extender starts"
    );
    if let Some(Election {
        namespace,
        name,
        identity,
        timing,
    }) = &config.election
    {
        let lease = format_args!("{namespace}/{name}");
        tracing::info!(%lease, identity, ?timing, "replicas elect a leader");
    } else {
        tracing::info!("no leader election: no other extender may run beside this one");
    }
    let extender = Extender::new(config, client, tasks.clone());
    extender.follow(tasks);
    if let Some(listener) = admin {
        let router = extender.admin_router();
        let connections = Connections::default().counted_by(extender.0.metrics.traffic.clone());
        let name = "the admin server";
        serve::spawn(tasks, name, listener, None, router, connections);
    }
    let (router, connections) = (extender.router(), extender.0.connections.clone());
    serve::spawn(tasks, "the server", listener, tls, router, connections);
    Ok(address)
}

impl Extender {
    /// Starts the background work as services of the process: the watches of nodes and pods, the election, Events for
    /// owners, preemptions, and wakes if they are enabled.
    pub fn follow(&self, tasks: &Tasks) {
        if let Some(waiting) = self.0.waiting_notices.lock().take() {
            tasks.service("the notices", self.clone().post_notices(waiting));
        }
        if let Some(waiting) = self.0.waiting_refusals.lock().take() {
            tasks.service("the refusals", self.clone().note_refusals(waiting));
        }
        tasks.service("the explanations", self.clone().tell_refused());
        tasks.service("the preemptions", self.clone().preempt());
        if self.0.config.wake {
            tasks.service("the wakes", self.clone().wake_waiting());
        }
        tasks.service("the watch of nodes", self.clone().follow_nodes());
        tasks.service("the watch of pods", self.clone().follow_pods());
        self.stand_for_election(tasks);
    }
}
