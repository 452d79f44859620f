//! What the proxy does with one request.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde_json::json;

use super::Way;
use crate::chaos::fate::{Fate, Kind};

pub(super) async fn forward(State(way): State<Arc<Way>>, request: Request) -> Response {
    let kind = kind(&request);
    let fate = way.next(kind);
    let (mut parts, body) = request.into_parts();
    identify(&way, &mut parts);
    // A sender that dies in the middle of its request has sent no request.
    let Ok(body) = axum::body::to_bytes(body, usize::MAX).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    if kind == Kind::Watch {
        return watch(&way, &parts, body, fate).await;
    }
    let kept = Kept::of(&way);
    // A separate task, so that the request arrives even if its sender dies.
    let handling = tokio::spawn(async move { carry(kept, parts, body, fate).await });
    match handling.await {
        Ok(Some(answer)) => answer,
        Ok(None) | Err(_) => broken(),
    }
}

/// Does to a request what its fate says. Returns `None` if the request is not answered.
async fn carry(kept: Kept, parts: Parts, body: Bytes, fate: Fate) -> Option<Response> {
    let way = &kept.0;
    match fate {
        Fate::Late(by) => {
            tokio::time::sleep(by).await;
            Some(send(way, &parts, body).await)
        }
        Fate::Lost => None,
        Fate::Unanswered => {
            send(way, &parts, body).await;
            None
        }
        Fate::Twice(after) => {
            let answer = send(way, &parts, body.clone()).await;
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                send(&kept.0, &parts, body).await;
            });
            Some(answer)
        }
        Fate::Pass | Fate::Expired | Fate::Breaks(_) => Some(send(way, &parts, body).await),
    }
}

/// A request that counts as under way until it is dropped.
struct Kept(Arc<Way>);

impl Kept {
    fn of(way: &Arc<Way>) -> Self {
        way.state.lock().under_way += 1;
        Self(way.clone())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.state.lock().under_way -= 1;
    }
}

fn kind(request: &Request) -> Kind {
    let query = request.uri().query().unwrap_or_default();
    if query.split('&').any(|part| part == "watch=true") {
        Kind::Watch
    } else if request.uri().path().ends_with("/binding") {
        Kind::Bind
    } else if request.method() == Method::GET {
        Kind::Read
    } else {
        Kind::Write
    }
}

/// Replaces the account's name with its real token.
fn identify(way: &Way, parts: &mut Parts) {
    let named = parts.headers.get(header::AUTHORIZATION);
    let named = named.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let token = way.token(named.unwrap_or_default());
    if let Ok(value) = HeaderValue::try_from(format!("Bearer {token}")) {
        parts.headers.insert(header::AUTHORIZATION, value);
    }
}

/// A watch that ends when its fate says so, or when all watches are cut.
async fn watch(way: &Way, parts: &Parts, body: Bytes, fate: Fate) -> Response {
    if fate == Fate::Expired {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "too old resource version", "reason": "Expired", "code": 410,
        });
        return (StatusCode::GONE, axum::Json(status)).into_response();
    }
    let life = match fate {
        Fate::Breaks(after) => after,
        _ => Duration::from_hours(24),
    };
    let mut cut = way.cut.subscribe();
    let end = async move {
        tokio::select! {
            () = tokio::time::sleep(life) => {}
            _ = cut.changed() => {}
        }
    };
    let answer = send(way, parts, body).await;
    answer.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(end))))
}

async fn send(way: &Way, parts: &Parts, body: Bytes) -> Response {
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    let mut copy = axum::http::Request::builder()
        .method(parts.method.clone())
        .uri(path);
    for (name, value) in &parts.headers {
        if ![header::HOST, header::CONTENT_LENGTH].contains(name) {
            copy = copy.header(name, value);
        }
    }
    let copy = copy.body(kube::client::Body::from(body.to_vec()));
    match way.client.send(copy.expect("a valid request")).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => {
            let text = format!("the API server does not answer: {error}");
            (StatusCode::BAD_GATEWAY, text).into_response()
        }
    }
}

/// A body that fails at once, which makes the server cut the connection.
fn broken() -> Response {
    let fail = futures::stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("cut")) });
    Response::new(Body::from_stream(fail))
}
