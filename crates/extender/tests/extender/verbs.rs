//! Filter, prioritize, inspect and the administration routes over a known cluster.

use axum::http::StatusCode;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::{Config, Offer};
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::cluster::{
    call, config, extender, extender_with, get, no_api_server, node, pod, pod_of_gib, running,
};
use crate::kubernetes::HostPriorityList;

#[tokio::test]
async fn a_node_counts_by_its_best_card_and_not_by_its_sum() {
    let pods = [
        running(pod_of_gib("a", 4), "split", "GPU-split-0"),
        running(pod_of_gib("b", 4), "split", "GPU-split-1"),
        running(pod_of_gib("c", 8), "whole", "GPU-whole-0"),
    ];
    let extender = extender(&[node("split", &[8, 8]), node("whole", &[8, 8])], &pods);
    let result = extender
        .filter(&pod_of_gib("new", 8), &["split", "whole"])
        .await;
    let refused = result.refused();
    assert_eq!(result.node_names.unwrap(), ["whole"]);
    assert_eq!(
        refused["split"],
        "gpushare: no card has 8192 MiB of memory free, the most is 4096"
    );
}

#[tokio::test]
async fn unknown_nodes_and_nodes_without_cards_say_so() {
    let bare = json!({"metadata": {"name": "bare"}});
    let broken = json!({"metadata": {"name": "broken", "annotations": {"gpushare.io/cards": "{"}}});
    let extender = extender(&[bare, broken], &[]);
    let names = ["bare", "broken", "unknown"];
    let result = extender.filter(&pod_of_gib("new", 1), &names).await;
    assert_eq!(result.node_names.as_deref(), Some(&[][..]));
    for (name, reason) in result.refused() {
        let expected = "no gpu cards published";
        assert!(reason.contains(expected), "{name}: {reason}");
    }
}

#[tokio::test]
async fn an_invalid_request_is_explained_on_every_node() {
    let extender = extender(&[node("n1", &[8])], &[]);
    for (limits, expected) in [
        (
            json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "10G"}),
            "more than any card has",
        ),
        (json!({"aliyun.com/gpu-mem": "0"}), "asks for nothing"),
        (json!({"aliyun.com/gpu-mem": "-3"}), "gpu-mem"),
        (
            json!({"gpushare.io/gpu-mem": "512"}),
            "write gpushare.io/gpu: 1",
        ),
        (json!({"gpushare.io/gpu-mem": "1024"}), "is missing"),
    ] {
        let result = extender.filter(&pod("bad", &limits), &["n1", "n2"]).await;
        let refused = result.refused();
        assert_eq!(result.node_names.as_deref(), Some(&[][..]), "{limits}");
        assert_eq!(refused["n1"], refused["n2"]);
        let reason = &refused["n1"];
        let container = "gpushare: container \"main\"";
        assert!(reason.starts_with(container), "{reason}");
        assert!(reason.contains(expected), "{limits}: {reason}");
    }
}

#[tokio::test]
async fn a_pod_that_is_bound_already_is_an_error_to_be_retried() {
    let bound = running(pod_of_gib("a", 4), "n1", "GPU-n1-0");
    let extender = extender(&[node("n1", &[8])], &[bound]);
    let result = extender.filter(&pod_of_gib("a", 4), &["n1"]).await;
    assert_eq!(result.error, "gpushare: the pod is bound to n1 already");
    assert!(result.refused().is_empty());
}

#[tokio::test]
async fn before_the_lists_nothing_is_guessed() {
    let extender = Extender::new(config(), no_api_server(), Tasks::new());
    let result = extender.filter(&pod_of_gib("a", 4), &["n1"]).await;
    assert_eq!(result.error, "gpushare: nodes are not listed yet");
    let (status, body) = get(&extender, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(body, "not ready: nodes are not listed yet\n");
    extender.load(&[], &[]);
    assert_eq!(get(&extender, "/readyz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn at_shutdown_the_process_is_not_ready_but_healthy() {
    let tasks = Tasks::new();
    let extender = Extender::new(config(), no_api_server(), tasks.clone());
    extender.load(&[], &[]);
    tasks.shutdown().cancel();
    let (ready, _) = get(&extender, "/readyz").await;
    assert_eq!(ready, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(get(&extender, "/healthz").await.0, StatusCode::OK);
}

async fn scores(extender: &Extender, pod: &Value, nodes: &[String]) -> Vec<(String, i64)> {
    let body = json!({"Pod": pod, "NodeNames": nodes});
    let scores: HostPriorityList = call(extender, "prioritize", &body).await;
    let scores = scores.into_iter().map(|one| (one.host, one.score));
    scores.collect()
}

#[tokio::test]
async fn the_best_node_wins_alone_in_whatever_order_the_question_comes() {
    let nodes: Vec<Value> = (0..14).map(|n| node(&format!("n{n:02}"), &[16])).collect();
    let tight = running(pod_of_gib("a", 10), "n07", "GPU-n07-0");
    let extender = extender(&nodes, &[tight]);
    let mut names: Vec<String> = (0..14).map(|n| format!("n{n:02}")).collect();
    names.push("unknown".to_owned());
    let new = pod_of_gib("new", 4);
    let mut forward = scores(&extender, &new, &names).await;
    names.reverse();
    let mut backward = scores(&extender, &new, &names).await;
    forward.sort();
    backward.sort();
    assert_eq!(forward, backward, "in another order");
    let best: Vec<_> = forward.iter().filter(|(_, score)| *score > 0).collect();
    assert_eq!(best, [&("n07".to_owned(), 10)]);
}

#[tokio::test]
async fn a_pod_that_needs_no_card_leaves_nodes_with_cards_to_others() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let names = ["n1", "n2", "n3"].map(str::to_owned);
    let plain = pod("plain", &json!({"cpu": "1"}));
    let scores = scores(&extender, &plain, &names).await;
    let expected = ["n2", "n3"].map(|name| (name.to_owned(), 10));
    assert_eq!(scores, expected, "a node that is not named counts as 0");
}

fn best_only() -> Config {
    Config {
        offer: Offer::Best,
        ..config()
    }
}

#[tokio::test]
async fn filter_offers_the_best_node_alone_so_that_nothing_overrules_it() {
    let nodes: Vec<Value> = (0..5).map(|n| node(&format!("n{n}"), &[16])).collect();
    let tight = running(pod_of_gib("a", 10), "n3", "GPU-n3-0");
    let extender = extender_with(best_only(), &nodes, &[tight]);
    let names = ["n0", "n1", "n2", "n3", "n4", "unknown"];
    let result = extender.filter(&pod_of_gib("new", 4), &names).await;
    assert!(result.refused().is_empty());
    assert_eq!(result.node_names.unwrap(), ["n3"]);
    let result = extender.filter(&pod_of_gib("large", 20), &names).await;
    assert_eq!(result.refused().len(), names.len(), "every node says why");
}

#[tokio::test]
async fn a_pod_may_ask_for_another_policy_than_the_clusters() {
    let nodes: Vec<Value> = (0..3).map(|n| node(&format!("n{n}"), &[16, 16])).collect();
    let tight = running(pod_of_gib("a", 10), "n1", "GPU-n1-0");
    let extender = extender_with(best_only(), &nodes, &[tight]);
    let mut spread = pod_of_gib("new", 4);
    spread["metadata"]["annotations"] = json!({"gpushare.io/policy": "spread"});
    let result = extender.filter(&spread, &["n1", "n0"]).await;
    assert_eq!(result.node_names.unwrap(), ["n0"]);
    spread["metadata"]["annotations"] = json!({"gpushare.io/policy": "best-fit"});
    let result = extender.filter(&spread, &["n1", "n0"]).await;
    assert_eq!(result.node_names.unwrap(), ["n1"]);
}

#[tokio::test]
async fn selectors_by_model_and_card_keep_a_pod_where_it_wants_to_be() {
    let extender = extender_with(best_only(), &[node("n1", &[8]), node("n2", &[8])], &[]);
    let chosen = |annotation: &str, value: &str| {
        let mut pod = pod_of_gib("new", 4);
        pod["metadata"]["annotations"] = json!({annotation: value});
        pod
    };
    let here = chosen("gpushare.io/card-ids", "GPU-n2-0");
    let result = extender.filter(&here, &["n1", "n2"]).await;
    assert_eq!(result.node_names.unwrap(), ["n2"]);
    let nowhere = chosen("gpushare.io/card-models", "A100");
    let refused = extender.filter(&nowhere, &["n1"]).await.refused();
    let reason = "gpushare: the pod's selectors exclude the cards that have room";
    assert_eq!(refused["n1"], reason);
}

#[tokio::test]
async fn inspect_shows_nodes_cards_and_pods_as_the_predecessor_did() {
    let pods = [
        running(pod_of_gib("z", 3), "n1", "GPU-n1-0"),
        running(pod_of_gib("a", 2), "n1", "GPU-n1-0"),
    ];
    let bare = json!({"metadata": {"name": "bare"}});
    let extender = extender(&[bare, node("n2", &[8]), node("n1", &[15, 15])], &pods);
    let (status, body) = get(&extender, "/gpushare-scheduler/inspect").await;
    assert_eq!(status, StatusCode::OK);
    let n1 = json!({"name": "n1", "totalGPU": 30, "usedGPU": 5, "devs": [
        {"id": 0, "totalGPU": 15, "usedGPU": 5, "pods": [
            {"name": "a", "namespace": "team", "usedGPU": 2},
            {"name": "z", "namespace": "team", "usedGPU": 3}]},
        {"id": 1, "totalGPU": 15, "usedGPU": 0, "pods": []}]});
    let n2 = json!({"name": "n2", "totalGPU": 8, "usedGPU": 0, "devs": [
        {"id": 0, "totalGPU": 8, "usedGPU": 0, "pods": []}]});
    let all: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(all, json!({"nodes": [n1, n2]}));

    let (_, body) = get(&extender, "/gpushare-scheduler/inspect/n1").await;
    let one: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(one, json!({"nodes": [n1]}));

    let (status, body) = get(&extender, "/gpushare-scheduler/inspect/nowhere").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    let unknown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(unknown["nodes"], json!([]));
    assert!(unknown["error"].as_str().unwrap().contains("nowhere"));
}

#[tokio::test]
async fn metrics_count_requests_refusals_and_bookings() {
    let bound = running(pod_of_gib("a", 4), "n1", "GPU-n1-0");
    let extender = extender(&[node("n1", &[8])], &[bound]);
    extender.filter(&pod_of_gib("big", 9), &["n1"]).await;
    let (_, metrics) = get(&extender, "/metrics").await;
    for line in [
        "gpushare_extender_requests_total{verb=\"filter\",code=\"200\"} 1",
        "gpushare_extender_refusals_total{reason=\"no_room\"} 1",
        "gpushare_extender_bookings{state=\"confirmed\"} 1",
        "gpushare_extender_cards 1",
        "gpushare_extender_card_memory_mib 8192",
        "gpushare_extender_booked_memory_mib 4096",
        "gpushare_extender_request_duration_seconds_count{verb=\"filter\"} 1",
    ] {
        assert!(
            metrics.lines().any(|found| found == line),
            "{line} is not in\n{metrics}"
        );
    }
}
