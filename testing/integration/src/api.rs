//! Which API server the tests run on.

use std::path::PathBuf;

use anyhow::{Context, Result};
use gpushare_apiserver::Server;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Names the kubeconfig of a real cluster to run on.
const KUBECONFIG: &str = "GPUSHARE_TEST_KUBECONFIG";

/// An API server: an embedded one that ends with this value, or a real one that already runs.
#[derive(Debug)]
pub struct Api {
    config: Config,
    embedded: Option<Server>,
}

impl Api {
    /// The real API server if the environment names one, a new embedded one otherwise.
    pub async fn start() -> Result<Self> {
        match std::env::var_os(KUBECONFIG) {
            Some(path) => Self::real(PathBuf::from(path)).await,
            None => Self::embedded().await,
        }
    }

    async fn embedded() -> Result<Self> {
        let server = Server::start()
            .await
            .context("cannot start the embedded API server")?;
        Ok(Self {
            config: server.config(),
            embedded: Some(server),
        })
    }

    async fn real(path: PathBuf) -> Result<Self> {
        let describe = || format!("{KUBECONFIG} names {}, which is not usable", path.display());
        let kubeconfig = Kubeconfig::read_from(&path).with_context(describe)?;
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        Ok(Self {
            config: config.with_context(describe)?,
            embedded: None,
        })
    }

    /// A client that shows every answer, because it does not retry by itself.
    pub fn client(&self) -> Result<Client> {
        let mut config = self.config.clone();
        config.default_retry = false;
        Client::try_from(config).context("cannot make a client")
    }

    /// How programs under test reach the API server.
    pub fn config(&self) -> Config {
        self.config.clone()
    }

    /// The embedded server, for what only it can do (faults, request counts). None on a real cluster.
    pub fn server(&self) -> Option<&Server> {
        self.embedded.as_ref()
    }
}
