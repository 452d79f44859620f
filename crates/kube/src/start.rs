//! What every role starts with, and what can prevent it from starting.

use std::path::Path;

use gpushare_daemon::serve::ListenError;
use gpushare_daemon::tls::{Tls, TlsError, TlsFiles};
use kube::Client;
use thiserror::Error;

use crate::client::{ClientError, connect};

/// A client of the API server, and the role's own certificate if it has one.
pub async fn identify(
    kubeconfig: Option<&Path>,
    tls: Option<TlsFiles>,
) -> Result<(Client, Option<Tls>), StartError> {
    let client = connect(kubeconfig).await?;
    Ok((client, tls.map(Tls::load).transpose()?))
}

#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot serve: {0}")]
    Serve(#[from] std::io::Error),
}
