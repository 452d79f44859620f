//! The life of one connection: handshake, requests, and an end that no client can delay.

use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::answer::Answer;
use super::late::Timely;
use super::limits::Limits;
use super::pulse::{Due, Felt, Pulse};
use super::traffic::{Slow, Traffic};
use super::{DRAIN, FAREWELL};

/// The most that is buffered of a client's bytes before a handler takes them: 64 MiB for all connections together, half
/// of the memory limit of the webhook, our smallest service. Headers must fit in it; hyper allows as much with HTTP/2.
const BUFFER: usize = 16 * 1024;
/// How many requests may be open on a connection at once. Go clients assume this number until they receive ours, so
/// with fewer the API server's first reviews could be refused.
const STREAMS: u32 = 100;
/// Detects clients that are gone without closing their connection.
const PING_EVERY: Duration = Duration::from_secs(30);

/// The settings with which clients are served.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) router: Router,
    pub(super) limits: Limits,
    pub(super) traffic: Traffic,
    /// When cancelled, open requests are finished, and then the connection ends.
    pub(super) hang_up: CancellationToken,
}

impl Terms {
    pub(super) async fn serve(
        self,
        stream: TcpStream,
        client: IpAddr,
        tls: Option<Arc<ServerConfig>>,
    ) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, %client, "a connection ended at once");
            return;
        }
        let Some(config) = tls else {
            return self.drive(stream, client).await;
        };
        let handshake = timeout(
            self.limits.handshake,
            TlsAcceptor::from(config).accept(stream),
        );
        match self.hang_up.run_until_cancelled(handshake).await {
            Some(Ok(Ok(stream))) => self.drive(stream, client).await,
            Some(Ok(Err(error))) => tracing::debug!(%error, %client, "a TLS handshake failed"),
            Some(Err(_elapsed)) => self.traffic.cut(Slow::Handshake, client),
            None => {}
        }
    }

    /// Serves requests until the client closes the connection, is too slow, or the server hangs up.
    pub(super) async fn drive<S>(self, stream: S, client: IpAddr)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (limits, pulse) = (self.limits, Pulse::new());
        let service = {
            let (router, traffic, pulse) = (self.router, self.traffic.clone(), pulse.clone());
            service_fn(move |request: Request<Incoming>| {
                let busy = pulse.begin(request.version());
                let timely = |body| Timely::new(body, limits.body, traffic.clone(), client);
                let request = request.map(|body| Body::new(timely(body)));
                let answered = router.clone().oneshot(request);
                async move {
                    let answer = answered.await?;
                    Ok::<_, std::convert::Infallible>(answer.map(|body| Answer::new(body, busy)))
                }
            })
        };
        let mut http = auto::Builder::new(TokioExecutor::new());
        http.http1().max_buf_size(BUFFER);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .max_concurrent_streams(STREAMS);
        let stream = TokioIo::new(Felt {
            stream,
            pulse: pulse.clone(),
        });
        let mut connection = pin!(http.serve_connection(stream, service));
        let due = tokio::select! {
            due = until_due(connection.as_mut(), &pulse, &limits) => due,
            () = self.hang_up.cancelled() => {
                connection.as_mut().graceful_shutdown();
                let left = until_due(connection.as_mut(), &pulse, &limits);
                timeout(DRAIN, left).await.unwrap_or_default()
            }
        };
        match due {
            Some(Due::Cut(slow)) => self.traffic.cut(slow, client),
            Some(Due::Leave) => {
                connection.as_mut().graceful_shutdown();
                let _gone_either_way = timeout(FAREWELL, connection).await;
            }
            None => {}
        }
    }
}

/// Drives the connection until something is due; `None` if it ended by itself.
async fn until_due<C: Future>(
    mut connection: Pin<&mut C>,
    pulse: &Pulse,
    limits: &Limits,
) -> Option<Due> {
    let mut alarm = pin!(sleep_until(Instant::now()));
    poll_fn(|cx| {
        if connection.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        // Whatever the connection just did may have changed what is due.
        let Some((at, due)) = pulse.due(limits, cx) else {
            return Poll::Pending;
        };
        if at <= Instant::now() {
            return Poll::Ready(Some(due));
        }
        if alarm.deadline() != at {
            alarm.as_mut().reset(at);
        }
        alarm.as_mut().poll(cx).map(|()| Some(due))
    })
    .await
}
