//! The minimum that filter and prioritize can cost: decode the body, encode an answer of the same size,
//! decide nothing. Served by the same stack as the extender's routes.

pub(crate) mod admission;

use axum::Router;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use bytes::Bytes;
use gpushare_kube::slim;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// How many nodes the answer offers (filter) or scores (prioritize).
pub(crate) const NAMED: &str = "x-named";
/// How many nodes the answer refuses.
pub(crate) const REFUSED: &str = "x-refused";
/// How long a refusal's reason is.
pub(crate) const REASON: &str = "x-reason";

pub(crate) fn router() -> Router {
    Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Args<'a> {
    #[expect(dead_code, reason = "decoded because the extender must decode it too")]
    pod: slim::Pod,
    #[serde(borrow)]
    node_names: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct FilterResult<'a> {
    node_names: &'a [&'a str],
    failed_nodes: Refused<'a>,
    failed_and_unresolvable_nodes: Refused<'a>,
    error: &'a str,
}

struct Refused<'a> {
    names: &'a [&'a str],
    reason: &'a str,
}

impl Serialize for Refused<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.names.len()))?;
        for name in self.names {
            map.serialize_entry(name, self.reason)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct HostPriority<'a> {
    host: &'a str,
    score: i64,
}

async fn filter(headers: HeaderMap, body: Bytes) -> Response {
    let Ok(args) = serde_json::from_slice::<Args<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let reason = "x".repeat(number(&headers, REASON));
    let names = args.node_names.as_slice();
    let offered = names.get(..number(&headers, NAMED)).unwrap_or_default();
    let refused = names.get(..number(&headers, REFUSED)).unwrap_or_default();
    json(&FilterResult {
        node_names: offered,
        failed_nodes: Refused {
            names: &[],
            reason: "",
        },
        failed_and_unresolvable_nodes: Refused {
            names: refused,
            reason: &reason,
        },
        error: "",
    })
}

async fn prioritize(headers: HeaderMap, body: Bytes) -> Response {
    let Ok(args) = serde_json::from_slice::<Args<'_>>(&body) else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let hosts = args.node_names.iter().take(number(&headers, NAMED));
    let scores: Vec<_> = hosts.map(|host| HostPriority { host, score: 0 }).collect();
    json(&scores)
}

pub(crate) fn number(headers: &HeaderMap, name: &str) -> usize {
    let value = headers.get(name).and_then(|value| value.to_str().ok());
    value.and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}
