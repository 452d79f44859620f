//! HTTP serving: plain or TLS, without Nagle's delay, drained at shutdown.
//!
//! A response leaves in one write: in two, a client with delayed acknowledgements would cost 40 ms a
//! call.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use axum::Router;
use axum_server::Handle;
use axum_server::accept::NoDelayAcceptor;
use axum_server::tls_rustls::RustlsAcceptor;
use thiserror::Error;

use crate::Tasks;
use crate::tls::{self, Tls};

/// How long open requests may take after shutdown began.
pub const DRAIN: Duration = Duration::from_secs(20);

#[derive(Debug, Error)]
#[error("cannot listen on {address}: {source}")]
pub struct ListenError {
    pub address: SocketAddr,
    pub source: io::Error,
}

/// Opens the listening socket, so that a taken port is an error at start.
pub fn listen(address: SocketAddr) -> Result<TcpListener, ListenError> {
    let open = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    open().map_err(|source| ListenError { address, source })
}

/// Serves the router as a service of the process until shutdown, then drains.
pub fn spawn(
    tasks: &Tasks,
    name: &'static str,
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
) -> io::Result<()> {
    let server = axum_server::from_tcp(listener)?.handle(drained_handle(tasks));
    let service = router.into_make_service();
    match tls {
        None => tasks.service(name, server.acceptor(NoDelayAcceptor).serve(service)),
        Some(tls) => {
            let acceptor = RustlsAcceptor::new(tls.config.clone()).acceptor(NoDelayAcceptor);
            tasks.service(name, server.acceptor(acceptor).serve(service));
            let shutdown = tasks.shutdown().clone();
            tasks.service("the certificate reload", tls.follow(tls::POLL, shutdown));
        }
    }
    Ok(())
}

fn drained_handle(tasks: &Tasks) -> Handle<SocketAddr> {
    let handle = Handle::new();
    let (drained, shutdown) = (handle.clone(), tasks.shutdown().clone());
    tasks.job(async move {
        shutdown.cancelled().await;
        drained.graceful_shutdown(Some(DRAIN));
    });
    handle
}

#[cfg(test)]
mod tests;
