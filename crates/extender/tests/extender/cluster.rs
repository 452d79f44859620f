//! A cluster in memory: nodes with cards, pods, and the extender that knows them.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use gpushare_core::card::Card;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::request::PodAsk;
use gpushare_core::{Amounts, Placement, Record, inventory, names};
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::{Config, Offer};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use http_body_util::BodyExt;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tower::ServiceExt;

const GIB: u64 = 1024;

pub(crate) fn config() -> Config {
    Config {
        offer: Offer::All,
        bind_timeout: Duration::from_millis(200),
        max_body: Some(1024 * 1024),
        ..Config::alone()
    }
}

/// A client for tests that must not reach an API server.
pub(crate) fn no_api_server() -> Client {
    let refuse = tower::service_fn(|_request: Request<kube::client::Body>| async {
        Err::<axum::http::Response<Body>, _>(std::io::Error::other("no API server in this test"))
    });
    Client::new(refuse, "default")
}

/// A node with cards of the given GiB, named `GPU-<node>-<index>`.
pub(crate) fn node(name: &str, cards: &[u64]) -> Value {
    let cards: Vec<Card> = cards
        .iter()
        .zip(0..)
        .map(|(gib, index)| Card {
            id: format!("GPU-{name}-{index}").as_str().into(),
            class: gpu::CLASS.into(),
            index,
            model: "Test T4".into(),
            capacity: Amounts::of(gpu::MEMORY, gib * GIB),
            healthy: true,
        })
        .collect();
    let inventory = inventory::encode(&gpu::classes(), &cards);
    json!({"metadata": {"name": name, "annotations": {names::CARDS: inventory}}})
}

/// A pending pod with the given limits.
pub(crate) fn pod(name: &str, limits: &Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "team", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending"},
    })
}

pub(crate) fn pod_of_gib(name: &str, gib: u64) -> Value {
    pod(name, &json!({"aliyun.com/gpu-mem": gib.to_string()}))
}

/// The same pod, running on a card.
pub(crate) fn running(mut pod: Value, node: &str, card: &str) -> Value {
    let ask = ask(&pod);
    let placement = Placement::on_one_card(&ask, &card.into());
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let record = Record::new(uid.into(), node.into(), &gpu::classes(), &placement);
    pod["metadata"]["annotations"] = json!({names::ALLOCATION: record.encode()});
    pod["spec"]["nodeName"] = json!(node);
    pod["status"]["phase"] = json!("Running");
    pod
}

fn ask(pod: &Value) -> PodAsk {
    let pod: slim::Pod = parse(pod);
    let facts = PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB));
    facts.ask.unwrap().unwrap()
}

fn parse<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap()
}

/// An extender that knows these nodes and pods.
pub(crate) fn extender(nodes: &[Value], pods: &[Value]) -> Extender {
    extender_with(config(), nodes, pods)
}

pub(crate) fn extender_with(config: Config, nodes: &[Value], pods: &[Value]) -> Extender {
    let extender = Extender::new(config, no_api_server(), Tasks::new());
    let nodes: Vec<slim::Node> = nodes.iter().map(parse).collect();
    let pods: Vec<slim::Pod> = pods.iter().map(parse).collect();
    extender.load(&nodes, &pods);
    extender
}

pub(crate) async fn send(extender: &Extender, request: Request<Body>) -> (StatusCode, Vec<u8>) {
    let response = extender.router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, body.to_vec())
}

pub(crate) async fn post(
    extender: &Extender,
    verb: &str,
    body: impl Into<Body>,
) -> (StatusCode, Vec<u8>) {
    let path = format!("/gpushare-scheduler/{verb}");
    send(extender, Request::post(path).body(body.into()).unwrap()).await
}

/// Sends a verb that must be understood, and reads its answer as the scheduler does.
pub(crate) async fn call<T: DeserializeOwned>(extender: &Extender, verb: &str, body: &Value) -> T {
    let (status, answer) = post(extender, verb, body.to_string()).await;
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(status, StatusCode::OK, "{text}");
    serde_json::from_slice(&answer).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) async fn get(extender: &Extender, path: &str) -> (StatusCode, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (status, body) = send(extender, request).await;
    (status, String::from_utf8(body).unwrap())
}
