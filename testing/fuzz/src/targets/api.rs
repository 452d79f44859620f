//! An API server that remembers what it was sent.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::{Method, Request, Response, Uri};
use kube::Client;
use serde_json::Value;

/// What was sent to the API server.
#[derive(Clone, Default)]
pub(super) struct Sent(Arc<Mutex<Vec<(Method, Uri)>>>);

impl Sent {
    fn add(&self, request: (Method, Uri)) {
        self.0.lock().expect("no panic before").push(request);
    }

    pub(super) fn take(&self) -> Vec<(Method, Uri)> {
        std::mem::take(&mut self.0.lock().expect("no panic before"))
    }
}

/// A client of an API server with these answers.
pub(super) fn server(sent: Sent, answer: fn(&Method, &Uri) -> Value) -> Client {
    let serve = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let answer = answer(&method, &uri);
        sent.add((method, uri));
        async move {
            let body = Body::from(answer.to_string());
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(serve, "default")
}

/// The parts of a path, from the namespace on if it is about an object of the core group in a namespace.
pub(super) fn parts(uri: &Uri) -> Vec<&str> {
    let path = uri.path();
    let path = path.strip_prefix("/api/v1/namespaces/").unwrap_or(path);
    path.split('/').collect()
}

/// Checks that each of these parts of the path is a plain name, so that no server resolves the path differently.
pub(super) fn check_names(uri: &Uri, names: &[&str]) {
    for name in names {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        let valid = !name.is_empty() && name.bytes().all(safe) && *name != "." && *name != "..";
        assert!(valid, "{name:?} in {uri}");
    }
}
