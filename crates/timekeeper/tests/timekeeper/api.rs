//! The API in front of a timekeeper at work: what it says is what the rounds found.

use axum::body::Body;
use axum::http::Request;
use axum::http::request::Builder;
use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use serde_json::{Value, json};

use crate::world::{Running, WHOLE, World, answer, time, until};

impl Running {
    async fn ask(&self, request: Builder, body: &str) -> (u16, Value) {
        let request = request.header("Authorization", "Bearer anybody");
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let (status, body) = answer(self.timekeeper.router(), request).await;
        (status, body.parse().unwrap())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.ask(Request::get(path), "").await
    }
}

#[tokio::test]
async fn a_balance_has_what_runs_now_and_a_forecast() {
    let world = World::new().await;
    world.budget("all", 10_000, json!({})).await;
    world.paying("a", 1_000, json!({"parent": "all"})).await;
    let running = world.start();
    world.at(100);
    world.running("p", WHOLE / 2, 0).await;
    world.until_used("a", 0, 50).await;
    let (status, balance) = running.get("/v1/namespaces/a/budget").await;
    assert_eq!(status, 200, "{balance}");
    assert_eq!([&balance["budget"], &balance["amount"]], ["a", "1000"]);
    assert_eq!([&balance["held"], &balance["remaining"]], ["50", "950"]);
    assert_eq!(balance["exhaustsAt"], time(world.base + 2_000));
    let (_, all) = running.get("/v1/budgets/all").await;
    assert_eq!([&all["held"], &all["remaining"]], ["50", "9950"]);
    running.stop().await;
}

#[tokio::test]
async fn a_grant_is_in_the_balance_at_once_and_in_the_status_soon() {
    let world = World::with_budget(1_000).await;
    let running = world.start();
    world.until_remaining("a", 1_000).await;
    let grant = json!({"id": "g", "amount": 500, "reason": "a deadline"}).to_string();
    let (status, told) = running
        .ask(Request::post("/v1/budgets/a/grants"), &grant)
        .await;
    assert_eq!((status, &told["author"]), (201, &json!("ada")));
    let (_, balance) = running.get("/v1/budgets/a").await;
    assert_eq!(
        [&balance["granted"], &balance["remaining"]],
        ["500", "1500"]
    );
    world.until_remaining("a", 1_500).await;
    running.stop().await;
}

#[tokio::test]
async fn a_pod_learns_when_it_will_be_evicted_from_what_stands_on_it() {
    let world = World::with_budget(1_000).await;
    let running = world.start();
    world.running("p", WHOLE, 0).await;
    until("the pod is known", async || {
        running.get("/v1/namespaces/a/pods/p").await.0 == 200
    })
    .await;
    let (_, told) = running.get("/v1/namespaces/a/pods/p").await;
    assert_eq!(
        (&told["evictAt"], &told["budget"]["name"]),
        (&json!(null), &json!("a"))
    );
    let at = time(world.base + 600);
    let patch = json!({names::EVICT_AT: at});
    world.pods("a").annotate("p", patch).await;
    until("the eviction is told", async || {
        running.get("/v1/namespaces/a/pods/p").await.1["evictAt"] == at
    })
    .await;
    assert_eq!(running.get("/v1/namespaces/a/pods/q").await.0, 404);
    running.stop().await;
}

#[tokio::test]
async fn namespaces_have_the_payers_that_the_rounds_charge() {
    let world = World::new().await;
    world.namespace("b").await;
    world.namespace("c").await;
    let of = |names: Value| json!({"namespaces": {"names": names}});
    world.budget("one", 1_000, of(json!(["a", "b"]))).await;
    world.budget("two", 1_000, of(json!(["b"]))).await;
    let running = world.start();
    let budget_of = async |namespace: &str| {
        let (_, told) = running
            .get(&format!("/v1/namespaces/{namespace}/budget"))
            .await;
        told.get("budget")
            .or(told.get("reason"))
            .cloned()
            .unwrap_or_default()
    };
    until("everything is listed", async || {
        budget_of("a").await == "one"
    })
    .await;
    assert_eq!(budget_of("b").await, "AmbiguousNamespaces");
    assert_eq!(budget_of("c").await, "NoBudget");
    assert_eq!(budget_of("d").await, "NoSuchNamespace");
    running.stop().await;
}
