//! Why a pod waits: one Event on the pod, and an answer for programs.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use gpushare_extender::Extender;
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::{extender, get, node, pod, pod_of_gib, running, send};

impl Following {
    async fn messages(&self) -> Vec<String> {
        let events = self.events().await;
        events.into_iter().filter_map(|e| e.message).collect()
    }

    async fn until_messages(&self, expected: &[&str]) {
        let what = format!("the events say {expected:?}");
        until(&what, async || self.messages().await == expected).await;
    }
}

async fn explained(extender: &Extender, namespace: &str, name: &str) -> (StatusCode, Value) {
    let path = format!("/explain?namespace={namespace}&pod={name}");
    let (status, body) = get(extender, &path).await;
    (status, serde_json::from_str(&body).unwrap())
}

async fn proposed(extender: &Extender, body: &Value) -> (StatusCode, Value) {
    let body = Body::from(body.to_string());
    let (status, body) = send(extender, Request::post("/explain").body(body).unwrap()).await;
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn a_refused_pod_gets_one_event_that_sums_up_and_is_brought_up_to_date() {
    let nodes = [node("n1", &[8]), node("n2", &[8, 4]), node("n3", &[])];
    let cluster = Following::start(&nodes).await;
    for (holder, gib, node) in [("a", 6, "n1"), ("b", 7, "n2")] {
        cluster.bound(holder, gib, node).await;
    }
    let pod = cluster.create("waits", 8).await;
    let all = ["n1", "n2", "n3"];
    cluster.refuses(&pod, &all).await;
    let no_cards = "1 node: no gpu cards published (is the gpushare node agent running there?)";
    let free = |most: u64| {
        let room = "no card has 8192 MiB of memory free";
        format!("2 nodes: {room}, the most is {most}; {no_cards}")
    };
    cluster.until_messages(&[&free(4096)]).await;

    // An equal refusal is not posted again; a changed one is, in the same event.
    cluster.refuses(&pod, &all).await;
    cluster.bound("small", 4, "n2").await;
    cluster.until_messages(&[&free(2048)]).await;
    let events = cluster.events().await;
    let event = events.first().unwrap();
    assert_eq!(event.reason.as_deref(), Some("NoCardFits"));
    assert_eq!(event.involved_object.uid, pod.metadata.uid);
    assert_eq!(event.count, Some(2));
}

#[tokio::test]
async fn no_event_is_posted_on_a_pod_that_is_bound_after_a_moment() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("holder", 8, "n1").await;
    let lucky = cluster.create("lucky", 8).await;
    let unlucky = cluster.create("unlucky", 9).await;
    for pod in [&lucky, &unlucky] {
        cluster.refuses(pod, &["n1"]).await;
    }
    cluster.delete("holder").await;
    cluster.until_bookings(&[]).await;
    assert_eq!(cluster.bind(&lucky, "n1").await, "");
    let explained = async || !cluster.events().await.is_empty();
    until("the other one is explained", explained).await;
    let events = cluster.events().await;
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].involved_object.name.as_deref(), Some("unlucky"));
}

#[tokio::test]
async fn the_answer_for_programs_says_how_the_pod_stands_and_what_would_help() {
    let cluster = Following::start(&[node("n1", &[8]), node("n2", &[16])]).await;
    cluster.bound("holder", 6, "n1").await;
    let pod = cluster.create("waits", 8).await;
    let known = async || explained(&cluster.extender, "default", "waits").await;
    until("the pod is known", async || known().await.0 == 200).await;
    let (_, answer) = known().await;
    assert_eq!(answer["standing"], "pending", "{answer}");
    assert_eq!(answer["nodes"], 2);
    assert_eq!(answer["fitting_nodes"], json!(["n2"]));

    cluster.filter(&pod, &["n1"]).await;
    until("the refusal is noted", async || {
        known().await.1["standing"] == "waiting"
    })
    .await;
    let (_, answer) = known().await;
    assert_eq!(answer["nodes"], 1, "{answer}");
    assert_eq!(answer["not_named_by_scheduler"], 1);
    let group = &answer["groups"][0];
    assert_eq!(group["kind"], "blocked");
    assert_eq!(group["obstacles"], json!(["room"]));
    assert_eq!(group["nodes"], json!(["n1"]));
    let lack = json!({
        "of": "amount", "wanted": 1, "dimension": "memory", "unit": "MiB", "needed": 8192, "most": 2048,
    });
    assert_eq!(group["lack"], lack);
    assert_eq!(
        group["help"][0],
        "free at least 6144 MiB of memory on one card of n1"
    );
    let card = &group["cards"]["n1"][0];
    assert_eq!(card["size"]["memory"], 8192);
    assert_eq!(card["free"]["memory"], 2048);
    assert_eq!(card["healthy"], true);

    let (_, bound) = explained(&cluster.extender, "default", "holder").await;
    assert_eq!(bound["standing"], "bound");
    assert_eq!(bound["node"], "n1");

    cluster.create("nonsense", 0).await;
    let (status, invalid) = explained(&cluster.extender, "default", "nonsense").await;
    assert_eq!(status, 200);
    assert_eq!(invalid["standing"], "invalid");
    assert_contains(invalid["message"].as_str().unwrap(), "asks for nothing");

    let (status, _) = explained(&cluster.extender, "default", "missing").await;
    assert_eq!(status, 404);
    let (status, _) = explained(&cluster.extender, "default", "..%2Fnodes").await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn a_pod_that_does_not_exist_yet_is_explained_by_its_manifest() {
    let held = running(pod_of_gib("holder", 6), "n1", "GPU-n1-0");
    let extender = extender(&[node("n1", &[8]), node("n2", &[4])], &[held]);
    let manifest = pod(
        "new",
        &json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "3072"}),
    );
    let (status, answer) = proposed(&extender, &manifest).await;
    assert_eq!(status, 200);
    assert_eq!(answer["standing"], "proposed");
    assert_eq!(answer["fitting"], 1);
    assert_eq!(answer["nodes"], 2);
    let only = json!({"pod": manifest, "nodes": ["n1", "unheard-of"]});
    let (_, answer) = proposed(&extender, &only).await;
    assert_eq!(answer["fitting"], 0);
    assert_contains(answer["message"].as_str().unwrap(), "the most is 2048");

    let mut choosy = manifest.clone();
    choosy["metadata"]["annotations"] = json!({"gpushare.io/card-models": "H100"});
    let (_, answer) = proposed(&extender, &choosy).await;
    let groups = answer["groups"].to_string();
    assert_contains(&groups, "remove or loosen gpushare.io/card-models");

    let half = pod("half", &json!({"gpushare.io/gpu-mem": "3072"}));
    let (_, answer) = proposed(&extender, &half).await;
    assert_eq!(answer["standing"], "invalid");
    let (_, answer) = proposed(&extender, &pod("plain", &json!({"cpu": "1"}))).await;
    assert_eq!(answer["standing"], "not-ours");
    for nonsense in [json!([]), json!({"pod": 3}), json!({})] {
        assert_eq!(proposed(&extender, &nonsense).await.0, 400, "{nonsense}");
    }
}

/// kube-scheduler groups nodes with the same text in its event.
#[tokio::test]
async fn equal_reasons_are_equal_texts() {
    let nodes = [node("n1", &[8]), node("n2", &[8]), node("n3", &[4, 8])];
    let extender = extender(&nodes, &[]);
    let large = pod_of_gib("p", 16);
    let result = extender.filter(&large, &["n1", "n2", "n3"]).await;
    let texts: BTreeSet<String> = result.refused().into_values().collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
}
