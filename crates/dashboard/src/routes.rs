//! The HTTP routes: the page, the data that it reads, and access to both. Everything is read-only.

mod assets;
mod guard;
mod login;
mod stream;

use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gpushare_daemon::admin::Admin;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use crate::Dashboard;
use crate::view::{nodes, pods};

/// How many events are shown with a pod: the newest ones.
const MOST_EVENTS: usize = 5;
const EVENTS_TIMEOUT: Duration = Duration::from_secs(3);

impl Dashboard {
    pub(crate) fn router(&self) -> Router {
        let looking = Router::new()
            .route("/", get(assets::page))
            .route("/api/snapshot", get(snapshot))
            .route("/api/stream", get(stream::stream))
            .route("/api/nodes/{name}", get(node))
            .route("/api/pods", get(find_pods))
            .route("/api/pods/{namespace}/{name}", get(pod))
            .layer(middleware::from_fn_with_state(
                self.clone(),
                guard::only_viewers,
            ));
        Router::new()
            .merge(looking)
            .route("/login", get(assets::login_page).post(login::log_in))
            .route("/logout", post(login::log_out))
            .route("/assets/{name}", get(assets::asset))
            .layer(middleware::from_fn_with_state(
                self.clone(),
                guard::only_this_host,
            ))
            .layer(middleware::from_fn(guard::only_own_pages))
            .layer(middleware::map_response(guard::harden))
            // Its default predicate excludes event streams, as it must: events must not wait for a full block.
            .layer(CompressionLayer::new().quality(CompressionLevel::Fastest))
            .with_state(self.clone())
    }

    pub(crate) fn admin_router(&self) -> Router {
        let (registry, dashboard) = (self.0.metrics.registry(), self.clone());
        let ready = move || dashboard.0.model.read().ready();
        Admin::new(env!("CARGO_PKG_VERSION"), registry, ready).router()
    }
}

async fn snapshot(State(dashboard): State<Dashboard>) -> Response {
    if let Err(missing) = dashboard.0.model.read().ready() {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, &missing);
    }
    dashboard.look(false).await;
    let json = [(header::CONTENT_TYPE, "application/json")];
    (json, dashboard.0.feed.snapshot().text.to_string()).into_response()
}

async fn node(State(dashboard): State<Dashboard>, Path(name): Path<String>) -> Response {
    match nodes::detail(&dashboard.0.model.read(), &name) {
        Some(detail) => Json(detail).into_response(),
        None => refuse(StatusCode::NOT_FOUND, "there is no such node with cards"),
    }
}

#[derive(Debug, Deserialize)]
struct Search {
    search: String,
}

async fn find_pods(State(dashboard): State<Dashboard>, Query(asked): Query<Search>) -> Response {
    let text = asked.search.trim().to_lowercase();
    let find = move || pods::find(&dashboard.0.model.read(), &text);
    match tokio::task::spawn_blocking(find).await {
        Ok(found) => Json(found).into_response(),
        Err(error) => refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// An event about a pod.
#[derive(Debug, Serialize)]
struct Said {
    reason: String,
    message: String,
    /// In seconds since 1970.
    time: i64,
}

async fn pod(
    State(dashboard): State<Dashboard>,
    Path((namespace, name)): Path<(String, String)>,
) -> Response {
    let read = dashboard.clone();
    let asked = (namespace.clone(), name);
    let detail =
        tokio::task::spawn_blocking(move || pods::detail(&read.0.model.read(), &asked.0, &asked.1))
            .await;
    let Ok(Some(detail)) = detail else {
        let message = "there is no such pod that holds or waits for cards";
        return refuse(StatusCode::NOT_FOUND, message);
    };
    let events = dashboard.events(&namespace, detail.uid.as_str()).await;
    Json(json!({"pod": detail, "events": events})).into_response()
}

impl Dashboard {
    /// Events about the pod, newest first. If they cannot be read, the page still has our own reasons.
    async fn events(&self, namespace: &str, uid: &str) -> Vec<Said> {
        let api: Api<Event> = Api::namespaced(self.0.client.clone(), namespace);
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let listed = tokio::time::timeout(EVENTS_TIMEOUT, api.list(&about)).await;
        let events = match listed {
            Ok(Ok(events)) => events.items,
            Ok(Err(error)) => {
                tracing::warn!(%error, namespace, uid, "cannot list the events of a pod");
                Vec::new()
            }
            Err(_) => Vec::new(),
        };
        let mut said: Vec<Said> = events.into_iter().map(Said::from).collect();
        said.sort_by_key(|said| std::cmp::Reverse(said.time));
        said.truncate(MOST_EVENTS);
        said
    }
}

impl From<Event> for Said {
    fn from(event: Event) -> Self {
        let last = event.last_timestamp.map(|time| time.0);
        let series = event.series.and_then(|series| series.last_observed_time);
        let time = series
            .map(|time| time.0)
            .or(last)
            .or(event.event_time.map(|time| time.0))
            .or(event.metadata.creation_timestamp.map(|time| time.0));
        Self {
            reason: event.reason.unwrap_or_default(),
            message: event.message.unwrap_or_default(),
            time: time.map_or(0, Timestamp::as_second),
        }
    }
}

fn refuse(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({"error": message}))).into_response()
}
