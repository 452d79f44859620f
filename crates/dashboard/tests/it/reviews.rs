//! An API server that decides who may view the dashboard.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use kube::Client;
use serde_json::{Value, json};
use tower::service_fn;

/// An API server that knows the tokens `viewer` and `stranger`, and counts how often it is queried.
pub(crate) fn reviews(asked: Arc<AtomicUsize>) -> Client {
    let answer = move |request: Request<kube::client::Body>| {
        let asked = asked.clone();
        async move {
            asked.fetch_add(1, Ordering::SeqCst);
            let path = request.uri().path().to_owned();
            let body = to_bytes(Body::new(request.into_body()), 1 << 20)
                .await
                .unwrap();
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            review["status"] = match path.as_str() {
                "/apis/authentication.k8s.io/v1/tokenreviews" => {
                    let token = review["spec"]["token"].clone();
                    let known = token == "viewer" || token == "stranger";
                    json!({"authenticated": known, "user": {"username": token, "groups": ["g"]}})
                }
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let spec = &review["spec"];
                    assert_eq!(spec["groups"], json!(["g"]));
                    let right = &spec["resourceAttributes"];
                    assert_eq!(right["group"], "gpushare.io");
                    assert_eq!(right["resource"], "dashboards");
                    assert_eq!(right["verb"], "get");
                    json!({"allowed": spec["user"] == "viewer"})
                }
                other => panic!("asked for {other}"),
            };
            Ok::<_, Infallible>(Response::new(Body::from(review.to_string())))
        }
    };
    Client::new(service_fn(answer), "default")
}
