//! Connections and the life of one request: access, faults, and the answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request as HttpRequest, Response};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::discovery::document;
use super::handler::Request;
use super::openapi::KindSchema;
use super::query::Query;
use super::reply::{Body, Cut, failure_reply};
use super::reviews::Review;
use super::route::{ResourceRoute, Route, route};
use super::webhooks::{Admission, Webhooks};
use crate::failure::Failure;
use crate::faults::{Fate, Faults};
use crate::logs::Logs;
use crate::registry::{Registry, Stamp};
use crate::request::{RequestInfo, Requests};

/// Larger bodies are refused, as by the real server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) registry: Arc<Registry>,
    pub(crate) faults: Faults,
    pub(crate) requests: Requests,
    pub(crate) reviews: Vec<Review>,
    pub(crate) described: Vec<KindSchema>,
    pub(crate) token: Option<String>,
    pub(crate) bookmark_interval: Duration,
    pub(crate) logs: Option<Arc<dyn Logs>>,
    pub(crate) webhooks: Webhooks,
}

/// What a path leads to.
enum Asked<'e> {
    Review(&'e Review),
    Route(Route<'e>),
}

/// Serves until stopped. When it returns, every connection is closed and its task has ended.
pub(crate) async fn serve(listener: TcpListener, edge: Arc<Edge>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, Arc::clone(&edge)));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    // Most likely no file descriptor is left. An immediate retry would only spin.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, edge: Arc<Edge>) {
    // Answers are small, and latency is most of what tests wait for.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let edge = Arc::clone(&edge);
        async move { edge.handle(request).await }
    });
    if let Err(error) = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
    {
        tracing::debug!(%error, "connection ended");
    }
}

impl Edge {
    async fn handle(&self, request: HttpRequest<Incoming>) -> Result<Response<Body>, Cut> {
        let (parts, body) = request.into_parts();
        // Even a request that will be refused is read to its end, so that the connection can be used again.
        let body = match read(body).await {
            Ok(body) => body,
            Err(failure) => return Ok(failure_reply(&failure)),
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let (path, invited) = self.path(parts.uri.path());
        let admitted = self.admit(&parts.headers, invited, path);
        let asked =
            admitted.and_then(
                |()| match self.reviews.iter().find(|review| review.is_at(path)) {
                    Some(review) => Ok(Asked::Review(review)),
                    None => route(&self.registry, &parts.method, path, &query).map(Asked::Route),
                },
            );
        match asked {
            Ok(Asked::Review(review)) => {
                let reply = async { review.reply(&parts.method, &parts.headers, &body) };
                self.struck(&review.info(), reply).await
            }
            Ok(Asked::Route(Route::Resource(route))) => {
                let info = route.info();
                let reply = self.answer(route, query, parts.headers, body);
                self.struck(&info, reply).await
            }
            Ok(Asked::Route(Route::Document(path))) => Ok(document(
                &self.registry,
                &self.described,
                &parts.method,
                &path,
            )),
            Err(failure) => Ok(failure_reply(&failure)),
        }
    }

    /// Answers the request, unless a fault intervenes.
    async fn struck(
        &self,
        info: &RequestInfo,
        answer: impl Future<Output = Response<Body>>,
    ) -> Result<Response<Body>, Cut> {
        self.requests.record(info);
        match self.faults.before(info).await {
            Fate::Proceed => {}
            Fate::Refuse(failure) => return Ok(failure_reply(&failure)),
            Fate::Cut => return Err(Cut),
        }
        let reply = answer.await;
        match self.faults.after(info).await {
            Fate::Cut => Err(Cut),
            _ => Ok(reply),
        }
    }

    async fn answer(
        &self,
        route: ResourceRoute<'_>,
        query: Query,
        headers: HeaderMap,
        body: Bytes,
    ) -> Response<Body> {
        let stamp = Stamp {
            now: Timestamp::now(),
            uid: Uuid::new_v4(),
        };
        let mut request = Request {
            registry: &self.registry,
            route,
            query,
            headers,
            body,
            stamp,
            bookmark_interval: self.bookmark_interval,
            logs: self.logs.as_deref(),
            admission: Admission::default(),
        };
        let reviewed = self.webhooks.review(&request).await;
        let answered = reviewed.and_then(|admission| {
            request.admission = admission;
            request.answer()
        });
        answered.unwrap_or_else(|failure| failure_reply(&failure))
    }

    /// The path without the token, and whether it contained the token. kubectl sends no bearer token without TLS, but
    /// it keeps the path of the server's address.
    fn path<'p>(&self, path: &'p str) -> (&'p str, bool) {
        let token = self.token.as_deref();
        let rest = token.and_then(|token| path.strip_prefix('/')?.strip_prefix(token));
        match rest {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => (rest, true),
            _ => (path, false),
        }
    }

    /// Checks the token if one is required, and that the client accepts JSON. Documents that only describe the API are
    /// open to all clients: kubectl requests them by absolute paths.
    fn admit(&self, headers: &HeaderMap, invited: bool, path: &str) -> Result<(), Failure> {
        let describes = path.starts_with("/openapi/");
        if let Some(token) = self.token.as_ref().filter(|_| !invited && !describes) {
            let given = headers
                .get(AUTHORIZATION)
                .and_then(|value| value.to_str().ok());
            let given = given.and_then(|value| value.strip_prefix("Bearer "));
            if given != Some(token.as_str()) {
                return Err(Failure::unauthorized());
            }
        }
        let accept = headers
            .get(ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or("*/*");
        let takes_json = accept.split(',').any(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            matches!(
                kind,
                "*/*" | "application/*" | "application/json" | "text/plain" | ""
            )
        });
        if takes_json || describes {
            Ok(())
        } else {
            Err(Failure::not_acceptable("application/json"))
        }
    }
}

async fn read(body: Incoming) -> Result<Bytes, Failure> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(BODY_LIMIT)),
        Err(error) => Err(Failure::bad_request(format!(
            "could not read the body: {error}"
        ))),
    }
}
