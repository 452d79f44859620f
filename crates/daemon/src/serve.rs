//! HTTP serving: plain or TLS, without Nagle's algorithm, drained at shutdown or on demand.
//!
//! All our listeners are served here, so that the cost of clients is bounded everywhere: how many may be connected
//! ([`Limits`]), and how long each may take for a handshake, headers, a body, an answer, or stay idle.
//!
//! A response is sent in one write: with two, a client with delayed acknowledgements would add 40 ms to each
//! call.

mod answer;
mod connection;
mod late;
mod limits;
mod places;
mod pulse;
mod traffic;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use rustls::ServerConfig;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Tasks;
use crate::tls::{self, Tls};
use connection::Terms;
use places::{Place, Places};

pub use late::LateBody;
pub use limits::Limits;
pub use traffic::Traffic;

/// How long open requests may take after shutdown began.
pub const DRAIN: Duration = Duration::from_secs(20);
/// How long a displaced connection has to finish its requests and close.
const FAREWELL: Duration = Duration::from_secs(1);
/// When file descriptors run out, nothing can be accepted until a connection ends.
const BETWEEN_TRIES: Duration = Duration::from_millis(100);

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

/// The connections of a server: their limits, where they are counted, and the open ones. Clones share the same
/// connections.
#[derive(Clone, Debug, Default)]
pub struct Connections {
    hang_up: Arc<Notify>,
    limits: Limits,
    traffic: Traffic,
}

impl Connections {
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    #[must_use]
    pub fn counted_by(self, traffic: Traffic) -> Self {
        Self { traffic, ..self }
    }

    /// Lets each connection finish its open requests and then closes it; new ones are still accepted. A client
    /// that reconnects may reach another server with the same name.
    pub fn hang_up(&self) {
        self.hang_up.notify_one();
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
    let config = tls.as_ref().map(|tls| tls.config.clone());
    let shutdown = tasks.shutdown().clone();
    tasks.service(
        name,
        serve(listener, config, router, connections, shutdown.clone()),
    );
    if let Some(tls) = tls {
        tasks.service("the certificate reload", tls.follow(tls::POLL, shutdown));
    }
}

/// Serves in plain HTTP for ever. Dropping the future ends all connections.
pub async fn plain(
    listener: TcpListener,
    router: Router,
    connections: Connections,
) -> io::Result<()> {
    serve(
        listener,
        None,
        router,
        connections,
        CancellationToken::new(),
    )
    .await
}

/// Serves until shutdown, then drains. Dropping the future ends all connections.
async fn serve(
    listener: TcpListener,
    tls: Option<Arc<ArcSwap<ServerConfig>>>,
    router: Router,
    connections: Connections,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let Connections {
        hang_up,
        limits,
        traffic,
    } = connections;
    let limits = limits.within_descriptors();
    let places = Places::new(&limits);
    let open = TaskTracker::new();
    let all = CancellationToken::new();
    let _ended_with_this = all.clone().drop_guard();
    let mut terms = Terms {
        router,
        limits,
        traffic,
        hang_up: all.child_token(),
    };
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            () = hang_up.notified() => {
                terms.hang_up.cancel();
                terms.hang_up = all.child_token();
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let (stream, client) = match accepted {
            Ok((stream, address)) => (stream, address.ip()),
            Err(error) if is_of_one_client(&error) => continue,
            Err(error) => {
                terms.traffic.not_accepted(&error);
                tokio::time::sleep(BETWEEN_TRIES).await;
                continue;
            }
        };
        match places.take(client) {
            Ok((place, displaced)) => {
                if let Some(displaced) = displaced {
                    terms.traffic.displaced(displaced, client);
                }
                let (terms, tls) = (terms.clone(), tls.as_ref().map(|tls| tls.load_full()));
                let counted = terms.traffic.opened();
                open.spawn(async move {
                    serve_in(&place, terms, stream, client, tls).await;
                    drop((place, counted));
                });
            }
            Err(full) => terms.traffic.refused(full, client, &terms.limits),
        }
    }
    drop(listener);
    all.cancel();
    open.close();
    let _cut_off_then = tokio::time::timeout(DRAIN, open.wait()).await;
    Ok(())
}

/// Serves one client as long as it keeps its place. If it is displaced, its open requests get [`FAREWELL`] to finish.
async fn serve_in(
    place: &Place,
    terms: Terms,
    stream: tokio::net::TcpStream,
    client: IpAddr,
    tls: Option<Arc<ServerConfig>>,
) {
    let hang_up = terms.hang_up.child_token();
    let terms = Terms {
        hang_up: hang_up.clone(),
        ..terms
    };
    let mut served = pin!(terms.serve(stream, client, tls));
    tokio::select! {
        () = &mut served => return,
        () = place.displaced() => hang_up.cancel(),
    }
    let _gone_either_way = tokio::time::timeout(FAREWELL, served).await;
}

/// Whether the client was gone before it was accepted, which does not affect other clients.
fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests;
