//! The routes of operators and probes: `/healthz`, `/readyz`, `/metrics` and `/version`.

use std::fmt;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;

/// What a process reports about itself. `ready` returns the reason why it cannot serve yet.
#[derive(Clone)]
pub struct Admin {
    pub version: &'static str,
    pub registry: Arc<Registry>,
    pub ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Admin {
    pub fn new(
        version: &'static str,
        registry: Arc<Registry>,
        ready: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self {
            version,
            registry,
            ready: Arc::new(ready),
        }
    }

    pub fn router(self) -> Router {
        Router::new()
            .route("/healthz", get(async || "ok\n"))
            .route("/readyz", get(readyz))
            .route("/metrics", get(metrics))
            .route("/version", get(version))
            .with_state(self)
    }
}

async fn version(State(admin): State<Admin>) -> &'static str {
    admin.version
}

async fn readyz(State(admin): State<Admin>) -> Response {
    match (admin.ready)() {
        Ok(()) => "ok\n".into_response(),
        Err(reason) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("not ready: {reason}\n"),
        )
            .into_response(),
    }
}

async fn metrics(State(admin): State<Admin>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &admin.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => {
            let message = format!("cannot write the metrics: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, message).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt;
    use prometheus_client::metrics::counter::Counter;
    use tower::ServiceExt;

    use super::*;

    async fn get(admin: Admin, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = admin.router().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn admin(ready: Result<(), String>) -> Admin {
        let mut registry = Registry::default();
        let counter: Counter = Counter::default();
        counter.inc();
        registry.register("things", "Things done", counter);
        Admin::new("1.2.3", Arc::new(registry), move || ready.clone())
    }

    #[tokio::test]
    async fn a_process_that_is_not_ready_says_why() {
        let (status, body) = get(admin(Err("pods not listed yet".into())), "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(body, "not ready: pods not listed yet\n");
        assert_eq!(get(admin(Ok(())), "/readyz").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn health_version_and_metrics_are_served() {
        assert_eq!(get(admin(Ok(())), "/healthz").await.0, StatusCode::OK);
        assert_eq!(get(admin(Ok(())), "/version").await.1, "1.2.3");
        let (_, metrics) = get(admin(Ok(())), "/metrics").await;
        assert!(metrics.contains("things_total 1"), "{metrics}");
    }
}
