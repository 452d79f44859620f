//! The HTTP endpoints: an AdmissionReview in, an AdmissionReview out.
//!
//! Every review with a uid is answered with 200, as the API server requires, even if the pod is refused. Other
//! codes mean that the body could not be read as an AdmissionReview, or an internal error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use gpushare_daemon::admin::Admin;
use gpushare_kube::admission::{Request, Review};

use super::Webhook;
use super::pki::Keeper;
use super::priority::BudgetState;

/// Half of the time that the API server gives us.
const PATIENCE: Duration = Duration::from_secs(1);

impl Webhook {
    /// What the API server calls.
    pub fn router(&self) -> Router {
        Router::new()
            .route("/mutate", post(mutate))
            .route("/warn", post(mutate))
            .with_state(self.clone())
            .merge(self.admin_router())
    }

    pub(super) fn admin_router(&self) -> Router {
        let ready = self.clone();
        Admin {
            version: env!("CARGO_PKG_VERSION"),
            registry: self.0.metrics.registry(),
            ready: Arc::new(move || ready.ready()),
        }
        .router()
    }

    fn ready(&self) -> Result<(), String> {
        self.0.view.read().ready()?;
        self.0.keeper.get().map_or(Ok(()), Keeper::ready)
    }

    /// Waits for the watch to show a namespace that was only just created.
    async fn wait_until_known(&self, request: &Request) {
        let known = async {
            loop {
                let changed = self.0.changed.notified();
                if self.0.view.read().budget_state(&request.namespace) != BudgetState::Unknown {
                    return;
                }
                changed.await;
            }
        };
        let _unknown_then = tokio::time::timeout(PATIENCE, known).await;
    }
}

async fn mutate(State(webhook): State<Webhook>, headers: HeaderMap, body: Body) -> Response {
    let started = Instant::now();
    let body = match webhook.0.body_room.read(&headers, body).await {
        Ok(body) => body,
        Err(refusal) => {
            webhook.0.metrics.unreadable();
            return refusal;
        }
    };
    let request = match body.work(Request::parse).await {
        Ok(Ok(request)) => request,
        Ok(Err(error)) => {
            webhook.0.metrics.unreadable();
            return refuse(StatusCode::BAD_REQUEST, error.to_string());
        }
        Err(error) => return refuse(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    if request.kind.kind == "Pod" {
        webhook.wait_until_known(&request).await;
    }
    let (answer, outcome) = webhook.review(request);
    webhook.0.metrics.answered(outcome, started.elapsed());
    match serde_json::to_vec(&Review::from(answer)) {
        Ok(body) => {
            let json = [(header::CONTENT_TYPE, "application/json")];
            (StatusCode::OK, json, body).into_response()
        }
        Err(error) => refuse(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the answer cannot be written: {error}"),
        ),
    }
}

pub(super) fn refuse(status: StatusCode, mut message: String) -> Response {
    message.insert_str(0, "gpushare: ");
    message.push('\n');
    (status, message).into_response()
}
