//! What can prevent a role from starting.

use gpushare_daemon::serve::ListenError;
use gpushare_daemon::tls::TlsError;
use thiserror::Error;

use crate::client::ClientError;

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
