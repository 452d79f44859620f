//! HTTP serving: plain or TLS, without Nagle's delay, drained at shutdown or on demand.
//!
//! A response leaves in one write: in two, a client with delayed acknowledgements would cost 40 ms a
//! call.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::Request;
use axum_server::Handle;
use axum_server::accept::{Accept, NoDelayAcceptor};
use axum_server::service::SendService;
use axum_server::tls_rustls::RustlsAcceptor;
use hyper::body::Incoming;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::Tasks;
use crate::tls::{self, Tls};

/// How long open requests may take after shutdown began.
pub const DRAIN: Duration = Duration::from_secs(20);
/// A client that comes back at once is not worth a new server each time.
const BETWEEN_HANGUPS: Duration = Duration::from_secs(1);

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

/// The open connections of a server; clones mean the same ones.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<Notify>);

impl Connections {
    /// Lets each connection finish its open requests and then closes it; new ones are welcome. A client
    /// that connects again may reach another server by the same name.
    pub fn hang_up(&self) {
        self.0.notify_one();
    }
}

/// Serves the router as a service of the process until shutdown, then drains.
pub fn spawn(
    tasks: &Tasks,
    name: &'static str,
    listener: TcpListener,
    tls: Option<Tls>,
    router: Router,
    connections: Connections,
) {
    let Some(tls) = tls else {
        let serving = serve(tasks, listener, NoDelayAcceptor, router, connections);
        tasks.service(name, serving);
        return;
    };
    let acceptor = RustlsAcceptor::new(tls.config.clone()).acceptor(NoDelayAcceptor);
    let serving = serve(tasks, listener, acceptor, router, connections);
    tasks.service(name, serving);
    let shutdown = tasks.shutdown().clone();
    tasks.service("the certificate reload", tls.follow(tls::POLL, shutdown));
}

fn serve<A>(
    tasks: &Tasks,
    listener: TcpListener,
    acceptor: A,
    router: Router,
    connections: Connections,
) -> impl Future<Output = io::Result<()>> + Send + 'static
where
    A: Accept<TcpStream, Router> + Clone + Send + Sync + 'static,
    A::Stream: AsyncRead + AsyncWrite + Unpin + Send,
    A::Service: SendService<Request<Incoming>> + Send,
    A::Future: Send,
{
    let tasks = tasks.clone();
    async move {
        let mut pause = Duration::ZERO;
        loop {
            // One server after the other on one socket: each can be told to end all its connections.
            let handle = Handle::new();
            let server = axum_server::from_tcp(listener.try_clone()?)?
                .handle(handle.clone())
                .acceptor(acceptor.clone());
            let mut serving = tasks.job(server.serve(router.clone().into_make_service()));
            let hung_up = async {
                tokio::time::sleep(pause).await;
                connections.0.notified().await;
            };
            let ended = tokio::select! {
                ended = &mut serving => Some(ended),
                () = tasks.shutdown().cancelled() => {
                    handle.graceful_shutdown(Some(DRAIN));
                    Some(serving.await)
                }
                () = hung_up => None,
            };
            match ended {
                Some(ended) => return ended.map_err(io::Error::other)?,
                None => handle.graceful_shutdown(Some(DRAIN)),
            }
            pause = BETWEEN_HANGUPS;
        }
    }
}

#[cfg(test)]
mod tests;
