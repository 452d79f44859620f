//! Bind: whatever the body says, requests to the API server concern only pods, through the paths of pods.

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, Response, StatusCode, Uri};
use kube::Client;
use serde_json::{Value, json};

use super::world::{self, block_on};
use crate::Verdict;

/// What was sent to the API server.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<(Method, Uri)>>>);

impl Sent {
    fn add(&self, request: (Method, Uri)) {
        self.0.lock().expect("no panic before").push(request);
    }

    fn take(&self) -> Vec<(Method, Uri)> {
        std::mem::take(&mut self.0.lock().expect("no panic before"))
    }
}

thread_local! {
    /// Kept between inputs, because creating one takes longer than a request to it.
    static EXTENDER: RefCell<Option<(Router, Sent)>> = const { RefCell::new(None) };
}

pub(crate) fn check(body: &[u8]) -> Verdict {
    let (extender, sent) = EXTENDER.take().unwrap_or_else(|| {
        let sent = Sent::default();
        let extender = block_on(async { world::extender(api_server(sent.clone())) });
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

/// An API server that has every pod, always with the same uid, and accepts every bind.
fn api_server(sent: Sent) -> Client {
    let serve = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = answer(request.method(), request.uri());
        let request = (request.method().clone(), request.uri().clone());
        sent.add(request);
        async move {
            let body = Body::from(answer.to_string());
            Ok::<_, std::convert::Infallible>(Response::new(body))
        }
    });
    Client::new(serve, "default")
}

fn answer(method: &Method, uri: &Uri) -> Value {
    if method == Method::POST {
        return json!({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201});
    }
    let parts: Vec<&str> = uri.path().split('/').collect();
    match parts.as_slice() {
        [_, _, _, _, namespace, _, name] => world::pod(namespace, name),
        _ => Value::Null,
    }
}

fn check_request(method: &Method, uri: &Uri) {
    let parts: Vec<&str> = uri.path().split('/').collect();
    let (namespace, name) = match parts.as_slice() {
        ["", "api", "v1", "namespaces", namespace, "pods", name] => {
            assert_eq!(
                (method, uri.query().unwrap_or_default()),
                (&Method::GET, "")
            );
            (namespace, name)
        }
        [
            "",
            "api",
            "v1",
            "namespaces",
            namespace,
            "pods",
            name,
            "binding",
        ] => {
            let deadline = Some("timeout=2000ms");
            assert_eq!((method, uri.query()), (&Method::POST, deadline));
            (namespace, name)
        }
        _ => panic!("{method} {uri} is no request about a pod"),
    };
    for part in [namespace, name] {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let valid = !part.is_empty() && part.bytes().all(safe) && *part != "." && *part != "..";
        assert!(valid, "{part:?} in {uri}");
    }
}
