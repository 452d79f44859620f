//! What goes back to the client: a document, a Status, or a stream.

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::Response;
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::object::body_of;
use crate::registry::{ObjectList, ServedResource};

/// Breaks the connection, even in the middle of an answer.
#[derive(Debug, thiserror::Error)]
#[error("connection cut by a fault on demand")]
pub(crate) struct Cut;

pub(crate) type Body = UnsyncBoxBody<Bytes, Cut>;

/// A complete JSON answer.
pub(crate) fn json_reply(code: u16, json: impl Into<Bytes>) -> Response<Body> {
    body_reply(code, "application/json", json)
}

pub(crate) fn text_reply(code: u16, text: &'static str) -> Response<Body> {
    body_reply(code, "text/plain; charset=utf-8", text)
}

pub(crate) fn plain_reply(text: String) -> Response<Body> {
    body_reply(200, "text/plain", text)
}

pub(crate) fn body_reply(code: u16, kind: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into())
        .map_err(|never| match never {})
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A refusal as a Status object.
pub(crate) fn failure_reply(failure: &Failure) -> Response<Body> {
    let mut response = json_reply(failure.code, failure.status().to_string());
    let seconds = failure
        .details
        .as_ref()
        .and_then(|details| details.retry_after_seconds);
    let seconds = seconds.or((failure.code == 429).then_some(1));
    if let Some(value) = seconds.and_then(|s| HeaderValue::from_str(&s.to_string()).ok()) {
        response.headers_mut().insert(RETRY_AFTER, value);
    }
    response
}

/// Adds warnings to a successful answer.
pub(crate) fn with_warnings(mut response: Response<Body>, warnings: &[String]) -> Response<Body> {
    for warning in warnings {
        let text = format!("299 - {warning:?}");
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// A Status that reports success.
pub(crate) fn success(code: u16, details: Option<Value>) -> Response<Body> {
    let mut status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    });
    if let Value::Object(map) = &mut status {
        match details {
            Some(details) => map.insert("details".to_owned(), details),
            None => map.insert("code".to_owned(), code.into()),
        };
    }
    json_reply(code, status.to_string())
}

/// The metadata of a list.
pub(crate) fn list_metadata(listed: &ObjectList) -> Value {
    let mut metadata = json!({"resourceVersion": listed.version.to_string()});
    if let Value::Object(map) = &mut metadata {
        if let Some(next) = &listed.next {
            map.insert("continue".to_owned(), next.as_str().into());
        }
        if let Some(remaining) = listed.remaining {
            map.insert("remainingItemCount".to_owned(), remaining.into());
        }
    }
    metadata
}

/// A list object around the serialised items.
pub(crate) fn list_json(served: &ServedResource, listed: &ObjectList) -> Bytes {
    let metadata = list_metadata(listed);
    let resource = &served.resource;
    let mut out = BytesMut::new();
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        resource.kind,
        resource.api_version()
    );
    out.put_slice(head.as_bytes());
    for (index, object) in listed.items.iter().enumerate() {
        if index > 0 {
            out.put_u8(b',');
        }
        match served.view {
            Some(view) => out.put_slice(&body_of(&(view.read)(object.value()))),
            None => out.put_slice(&object.body()),
        }
    }
    out.put_slice(b"]}");
    out.freeze()
}
