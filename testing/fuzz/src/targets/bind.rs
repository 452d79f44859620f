//! Bind: whatever the body says, requests to the API server concern only pods, through the paths of pods.

use std::cell::RefCell;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use serde_json::{Value, json};

use super::api::{self, Sent};
use super::world::{self, block_on};
use crate::Verdict;

thread_local! {
    /// Kept between inputs, because creating one takes longer than a request to it.
    static EXTENDER: RefCell<Option<(Router, Sent)>> = const { RefCell::new(None) };
}

pub(crate) fn check(body: &[u8]) -> Verdict {
    let (extender, sent) = EXTENDER.take().unwrap_or_else(|| {
        let sent = Sent::default();
        let extender = block_on(async { world::extender(api::server(sent.clone(), answer)) });
        (extender, sent)
    });
    let (status, answer) = block_on(world::post(extender.clone(), "bind", body));
    let requests = sent.take();
    for (method, uri) in &requests {
        check_request(method, uri);
    }
    let is_bind = |request: &&(Method, Uri)| request.0 == Method::POST;
    if !requests.iter().any(|request| is_bind(&request)) {
        // Nothing was booked, so the next input finds the same state.
        EXTENDER.set(Some((extender, sent)));
    }
    let error = world::error_in(&answer);
    match status {
        StatusCode::OK if error.is_empty() => {
            let binds = requests.iter().filter(is_bind).count();
            assert_eq!(binds, 1, "bound by one request");
            Verdict::Accepted
        }
        StatusCode::OK => Verdict::Refused,
        StatusCode::BAD_REQUEST => {
            assert!(!error.is_empty(), "a refusal without a reason");
            assert!(
                requests.is_empty(),
                "sent for a body that was not understood"
            );
            Verdict::Refused
        }
        other => panic!("answered {other}: {error}"),
    }
}

/// The answers of an API server that has every pod, always with the same uid, and accepts every bind.
fn answer(method: &Method, uri: &Uri) -> Value {
    if method == Method::POST {
        return json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201});
    }
    match api::parts(uri).as_slice() {
        [namespace, _, name] => world::pod(namespace, name),
        _ => Value::Null,
    }
}

fn check_request(method: &Method, uri: &Uri) {
    let (names, expected) = match api::parts(uri).as_slice() {
        [namespace, "pods", name] => ([*namespace, *name], (&Method::GET, "")),
        [namespace, "pods", name, "binding"] => {
            ([*namespace, *name], (&Method::POST, "timeout=2000ms"))
        }
        _ => panic!("{method} {uri} is no request about a pod"),
    };
    assert_eq!((method, uri.query().unwrap_or_default()), expected);
    api::check_names(uri, &names);
}
