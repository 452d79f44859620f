//! What can keep a role from starting.

use gpushare_daemon::serve::ListenError;
use gpushare_daemon::tls::TlsError;
use gpushare_ledger::store::{StoreError, with_causes};
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
    #[error("{}", with_causes(.0))]
    Store(#[from] StoreError),
    #[error(transparent)]
    Dashboard(#[from] gpushare_dashboard::StartError),
    #[error("cannot serve: {0}")]
    Serve(#[from] std::io::Error),
}
