//! Which API server the tests run on.

use anyhow::{Context, Result};
use gpushare_apiserver::Server;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Names the kubeconfig of a real cluster to run on.
const KUBECONFIG: &str = "GPUSHARE_TEST_KUBECONFIG";

/// A client of the real API server if the environment names one. Otherwise a new embedded server, which ends when it
/// is dropped, and a client of it. The client shows every answer, because it does not retry by itself.
pub(crate) async fn connect() -> Result<(Option<Server>, Client)> {
    let (server, mut config) = if let Some(path) = std::env::var_os(KUBECONFIG) {
        let describe = || format!("{KUBECONFIG} names {}, which is not usable", path.display());
        let kubeconfig = Kubeconfig::read_from(&path).with_context(describe)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        (None, config.with_context(describe)?)
    } else {
        let server = Server::start().await;
        let server = server.context("cannot start the embedded API server")?;
        let config = server.config();
        (Some(server), config)
    };
    config.default_retry = false;
    let client = Client::try_from(config).context("cannot make a client")?;
    Ok((server, client))
}
