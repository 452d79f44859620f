//! How the control plane reaches the API server.

use std::path::{Path, PathBuf};

use crate::proxy;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum ClientError {
    #[error(
        "cannot find the API server: {0}; give --kubeconfig, or run in a pod with a service account"
    )]
    NoApiServer(String),
    #[error("cannot use the kubeconfig {}: {source}", path.display())]
    Kubeconfig {
        path: PathBuf,
        source: KubeconfigError,
    },
    #[error("cannot set up the Kubernetes client: {0}")]
    Setup(kube::Error),
}

/// A client configured by the kubeconfig, or else from the environment.
pub async fn connect(kubeconfig: Option<&Path>) -> Result<Client, ClientError> {
    let mut client = match kubeconfig {
        Some(path) => {
            let failed = |source| ClientError::Kubeconfig {
                path: path.to_owned(),
                source,
            };
            let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
            let options = KubeConfigOptions::default();
            let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
            proxy::none_to_loopback(config.map_err(failed)?)
        }
        None => kube::Config::infer()
            .await
            .map_err(|error| ClientError::NoApiServer(error.to_string()))?,
    };
    // A retried bind could take effect after its first answer; watches have their own backoff.
    client.default_retry = false;
    Client::try_from(client).map_err(ClientError::Setup)
}
