//! An API server that does only what the measured programs need, at a known cost: objects are stored as the bytes
//! that are sent, lists come in pages, watches never end, and a bind takes a configured time.
//!
//! It is no model of Kubernetes (that is `crates/apiserver`): it never refuses anything.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, patch, post};
use bytes::Bytes;
use futures::Stream;
use parking_lot::RwLock;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::objects;

/// Binds in this namespace are answered like all others, but change nothing: for bare POSTs.
pub(crate) const BARE: &str = "bare";

#[derive(Clone)]
struct Api(Arc<Shared>);

struct Shared {
    nodes: Collection,
    pods: Collection,
    /// The index of the first waiting pod among the pods.
    first_pending: usize,
    bind_takes: Duration,
    leases: RwLock<HashMap<String, Value>>,
}

/// Objects of a kind and what happened to them since the start.
struct Collection {
    kind: &'static str,
    items: RwLock<Vec<Bytes>>,
    events: RwLock<Vec<Bytes>>,
    happened: watch::Sender<usize>,
}

/// The new state of an object, and the watch event for it.
struct Change {
    object: Bytes,
    event: Bytes,
}

impl Change {
    fn to(object: &Value) -> Self {
        let text = object.to_string();
        let event = format!("{{\"type\":\"MODIFIED\",\"object\":{text}}}\n");
        Self {
            object: text.into(),
            event: event.into(),
        }
    }
}

impl Collection {
    fn new(kind: &'static str, items: Vec<Bytes>) -> Self {
        Self {
            kind,
            items: RwLock::new(items),
            events: RwLock::new(Vec::new()),
            happened: watch::Sender::new(0),
        }
    }

    fn change(&self, index: usize, change: Change) {
        if let Some(item) = self.items.write().get_mut(index) {
            *item = change.object;
        }
        let mut events = self.events.write();
        events.push(change.event);
        self.happened.send_replace(events.len());
    }

    fn page(&self, from: usize, limit: usize) -> Vec<u8> {
        let version = self.events.read().len() + 1;
        let items = self.items.read();
        let end = from.saturating_add(limit).min(items.len());
        let page = items.get(from..end).unwrap_or_default();
        let next = if end < items.len() {
            end.to_string()
        } else {
            String::new()
        };
        let head = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"{version}\",\
             \"continue\":\"{next}\"}},\"items\":[",
            self.kind
        );
        let size = head.len() + page.iter().map(|item| item.len() + 1).sum::<usize>() + 2;
        let mut text = Vec::with_capacity(size);
        text.extend_from_slice(head.as_bytes());
        for (position, item) in page.iter().enumerate() {
            if position > 0 {
                text.push(b',');
            }
            text.extend_from_slice(item);
        }
        text.extend_from_slice(b"]}");
        text
    }
}

/// An endless stream of everything that happens after the version.
fn events(
    api: Api,
    of: fn(&Api) -> &Collection,
    after: usize,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let happened = of(&api).happened.subscribe();
    futures::stream::unfold(
        (api, happened, after),
        move |(api, mut happened, next)| async move {
            loop {
                let event = of(&api).events.read().get(next).cloned();
                if let Some(event) = event {
                    return Some((Ok(event), (api, happened, next + 1)));
                }
                // `api` owns the sender, so it is alive.
                happened.changed().await.ok()?;
            }
        },
    )
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options {
    #[serde(default)]
    watch: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default, rename = "continue")]
    from: Option<String>,
    #[serde(default)]
    resource_version: Option<String>,
}

/// The API with the measured cluster and this many waiting pods.
pub(crate) fn router(pods: usize, pending: usize, bind_takes: Duration) -> Result<Router> {
    let text = |object: Value| Bytes::from(object.to_string());
    let nodes = (0..objects::NODES).map(|number| text(objects::node(number)));
    let running = (0..pods).map(objects::running_pod);
    let waiting = (0..pending).map(objects::pending_pod);
    let pods_and_waiting: Vec<Bytes> = running
        .chain(waiting)
        .map(|pod| pod.map(text))
        .collect::<Result<_>>()?;
    let api = Api(Arc::new(Shared {
        nodes: Collection::new("Node", nodes.collect()),
        pods: Collection::new("Pod", pods_and_waiting),
        first_pending: pods,
        bind_takes,
        leases: RwLock::default(),
    }));
    let lease = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}";
    Ok(Router::new()
        .route("/api/v1/nodes", get(list_nodes))
        .route("/api/v1/pods", get(list_pods))
        .route(
            "/api/v1/namespaces/{namespace}/pods/{name}/binding",
            post(bind),
        )
        .route(
            "/api/v1/namespaces/{namespace}/pods/{name}/status",
            patch(answer_as_it_is),
        )
        .route(lease, get(read_lease).put(write_lease))
        .with_state(api))
}

async fn list_nodes(State(api): State<Api>, Query(options): Query<Options>) -> Response {
    list(&api, |api| &api.0.nodes, &options)
}

async fn list_pods(State(api): State<Api>, Query(options): Query<Options>) -> Response {
    list(&api, |api| &api.0.pods, &options)
}

fn list(api: &Api, of: fn(&Api) -> &Collection, options: &Options) -> Response {
    let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse().ok());
    let body = if options.watch.is_some() {
        let after: usize = number(&options.resource_version).unwrap_or(1);
        Body::from_stream(events(api.clone(), of, after.saturating_sub(1)))
    } else {
        let from = number(&options.from).unwrap_or(0);
        Body::from(of(api).page(from, options.limit.unwrap_or(usize::MAX)))
    };
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn bind(
    State(api): State<Api>,
    Path((namespace, name)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let answered = Instant::now() + api.0.bind_takes;
    // Done within the time of the bind, also for bare binds: the server does the same work for both.
    let bound = bound(&name, &body);
    tokio::time::sleep_until(answered).await;
    if let Some((number, change)) = bound.filter(|_| namespace != BARE) {
        api.0.pods.change(api.0.first_pending + number, change);
    }
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    (StatusCode::CREATED, axum::Json(status)).into_response()
}

/// Ignores what an extender writes to the status of pending pods before its first bind.
async fn answer_as_it_is(
    State(api): State<Api>,
    Path((_, name)): Path<(String, String)>,
) -> Response {
    let index = number(&name).map(|number| api.0.first_pending + number);
    let pod = index.and_then(|index| api.0.pods.items.read().get(index).cloned());
    match pod {
        Some(pod) => ([(header::CONTENT_TYPE, "application/json")], pod).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The number in the name of a waiting pod.
fn number(name: &str) -> Option<usize> {
    name.rsplit('-').next()?.parse().ok()
}

/// The number of the pod, and its state after the bind.
fn bound(name: &str, binding: &[u8]) -> Option<(usize, Change)> {
    let number = number(name)?;
    let mut pod = objects::pending_pod(number).ok()?;
    let binding: Value = serde_json::from_slice(binding).ok()?;
    let node = binding["target"]["name"].as_str().unwrap_or_default();
    objects::bind(&mut pod, node, &binding["metadata"]["annotations"]);
    Some((number, Change::to(&pod)))
}

async fn read_lease(State(api): State<Api>, Path((_, name)): Path<(String, String)>) -> Response {
    let known = api.0.leases.read().get(&name).cloned();
    axum::Json(known.unwrap_or_else(|| objects::lease_given_back(&name))).into_response()
}

async fn write_lease(State(api): State<Api>, axum::Json(lease): axum::Json<Value>) -> Response {
    keep_lease(&api, lease).into_response()
}

fn keep_lease(api: &Api, mut lease: Value) -> axum::Json<Value> {
    let name = lease["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let version = lease["metadata"]["resourceVersion"].as_str();
    let version = version
        .and_then(|text| text.parse::<u64>().ok())
        .unwrap_or(0)
        + 1;
    lease["metadata"]["resourceVersion"] = json!(version.to_string());
    api.0.leases.write().insert(name, lease.clone());
    axum::Json(lease)
}
