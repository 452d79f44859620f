//! A small cluster in memory, and an extender that knows it.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_core::names;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::{Config, Offer};
use gpushare_testkit::model;
use http_body_util::BodyExt;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tower::ServiceExt;

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
}

pub(super) fn block_on<T>(work: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(work))
}

/// For requests that must be answered from memory.
pub(super) fn no_api_server() -> Client {
    let refuse = tower::service_fn(|_request: Request<kube::client::Body>| async {
        Err::<Response<Body>, _>(std::io::Error::other("not to be called"))
    });
    Client::new(refuse, "default")
}

/// The routes of an extender that knows two nodes and one waiting pod. Call it within [`block_on`].
pub(super) fn extender(client: Client) -> Router {
    extender_with(client, &[])
}

/// As [`extender`], with more pods.
pub(super) fn extender_with(client: Client, others: &[Value]) -> Router {
    let config = Config {
        dialects: gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        }),
        wake: false,
        offer: Offer::All,
        max_body: Some(1024 * 1024),
        ..Config::alone()
    };
    let extender = Extender::new(config, client, Tasks::new());
    let nodes = [node("fake-1", &[16, 24]), node("fake-2", &[8])];
    let mut pods = vec![parse(pod("team", "a"))];
    pods.extend(others.iter().cloned().map(parse));
    extender.load(&nodes.map(parse), &pods);
    extender.router()
}

/// A pod that waits for a node and asks for 2 GiB.
pub(super) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace, "name": name, "uid": "uid-a"},
        "spec": {"priority": 10, "containers": [
            {"name": "c", "resources": {"limits": {names::ALIYUN_GPU_MEM: "2"}}}]},
        "status": {"phase": "Pending"},
    })
}

/// A pod of this priority that holds all memory of one of the cards, named by its uid.
pub(super) fn holder(uid: &str, priority: i32, node: &str, card: u32, gib: u64) -> Value {
    let cards = json!([{"id": format!("GPU-{node}-{card}"), "amounts": {"memory": gib * 1024}}]);
    let record = json!({"version": 2, "pod": uid, "node": node,
        "containers": [{"name": "c", "class": gpu::CLASS, "cards": cards}]});
    json!({
        "metadata": {"namespace": "team", "name": uid, "uid": uid,
            "annotations": {names::ALLOCATION: record.to_string()}},
        "spec": {"priority": priority, "nodeName": node, "containers": [
            {"name": "c", "resources": {"limits": {names::ALIYUN_GPU_MEM: gib.to_string()}}}]},
        "status": {"phase": "Running"},
    })
}

fn node(name: &str, cards: &[u64]) -> Value {
    let mib: Vec<u64> = cards.iter().map(|gib| gib * 1024).collect();
    model::node(name, &model::cards(name, &mib))
}

fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object that we wrote")
}

/// Sends one request as the scheduler does.
pub(super) async fn post(extender: Router, verb: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
    post_to(extender, &format!("/gpushare-scheduler/{verb}"), body).await
}

pub(super) async fn post_to(extender: Router, path: &str, body: &[u8]) -> (StatusCode, Vec<u8>) {
    let request = Request::post(path)
        .body(Body::from(body.to_vec()))
        .expect("a request");
    let Ok(response) = extender.oneshot(request).await;
    let status = response.status();
    let body = response.into_body().collect().await.expect("a body");
    (status, body.to_bytes().to_vec())
}

/// An answer that must be an object with an Error, as every refusal is.
pub(super) fn error_in(answer: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(answer).expect("an answer in JSON");
    let error = answer.get("Error").and_then(Value::as_str);
    error.expect("an answer with an Error").to_owned()
}
