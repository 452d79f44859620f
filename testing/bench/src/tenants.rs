//! An API server with only what the webhook watches: namespaces, budgets and priority classes, which never change.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::Query;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use gpushare_core::names;
use serde::Deserialize;
use serde_json::{Value, json};

pub(crate) const NAMESPACES: usize = 5_000;
/// Half of them select a team, the others name their namespaces.
pub(crate) const BUDGETS: usize = 400;

#[derive(Deserialize)]
struct Options {
    #[serde(default)]
    watch: Option<String>,
}

pub(crate) fn namespace(number: usize) -> String {
    format!("team-{number:04}")
}

pub(crate) fn router() -> Router {
    let named = |name: &str| json!({"name": name, "uid": name, "resourceVersion": "1"});
    let namespaces = (0..NAMESPACES).map(|number| {
        let mut metadata = named(&namespace(number));
        metadata["labels"] = json!({names::TEAM: format!("group-{}", number % BUDGETS)});
        json!({"metadata": metadata})
    });
    let budgets = (0..BUDGETS).map(|number| {
        let selects = if number % 2 == 0 {
            json!({"team": format!("group-{number}")})
        } else {
            json!({"names": [namespace(number), namespace(number + BUDGETS)]})
        };
        json!({
            "metadata": named(&format!("budget-{number}")),
            "spec": {"amount": "20h", "namespaces": selects},
            "status": {"exhausted": number % 10 == 0},
        })
    });
    let classes = [
        (names::IN_BUDGET, 0, "PreemptLowerPriority"),
        (names::OVER_BUDGET, -1000, "Never"),
    ]
    .map(|(name, value, policy)| json!({"metadata": named(name), "value": value, "preemptionPolicy": policy}));
    Router::new()
        .route(
            "/api/v1/namespaces",
            list("v1", "Namespace", &namespaces.collect::<Vec<_>>()),
        )
        .route(
            "/apis/gpushare.io/v1alpha1/gpubudgets",
            list(
                "gpushare.io/v1alpha1",
                "GpuBudget",
                &budgets.collect::<Vec<_>>(),
            ),
        )
        .route(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            list("scheduling.k8s.io/v1", "PriorityClass", &classes),
        )
}

/// Serves the whole list at once. A watch never ends and never has an event.
fn list(api_version: &str, kind: &str, items: &[Value]) -> axum::routing::MethodRouter {
    let page = json!({
        "apiVersion": api_version, "kind": format!("{kind}List"), "metadata": {"resourceVersion": "1"}, "items": items,
    });
    let page = Bytes::from(page.to_string());
    get(async move |Query(options): Query<Options>| -> Response {
        let body = match options.watch {
            Some(_) => Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>()),
            None => Body::from(page),
        };
        ([(header::CONTENT_TYPE, "application/json")], body).into_response()
    })
}
