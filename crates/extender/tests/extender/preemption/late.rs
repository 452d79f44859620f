//! Requests of a preemption that arrive after something else was decided.

use axum::http::StatusCode;
use gpushare_apiserver::{Answer, Times};
use k8s_openapi::api::core::v1::Pod;

use super::watched::evictions;
use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::node;
use crate::replicas::{Lingering, Replica, TIMING};

/// The leader preempts the pod `low` for the pod `high`, and one of its requests for that is delayed.
async fn loses(cluster: &Following, leader: &Replica, request: &'static str) -> (Lingering, Pod) {
    cluster.runs_by(leader, "low", 8, "low", "n1").await;
    let late = leader.line.lose(request);
    let high = cluster.create_of("high", 6, "high").await;
    leader.refuses(&high, &["n1"]).await;
    late.kept(1).await;
    (late, high)
}

#[tokio::test]
async fn an_eviction_that_arrives_when_nobody_has_to_go_any_more_evicts_nobody() {
    let cluster = Following::prepare_priorities(&[node("n1", &[8])]).await;
    let leader = Replica::leader(&cluster, "a").await;
    let (late, _) = loses(&cluster, &leader, "/low/eviction").await;
    leader.line.keep_no_more();
    let faults = cluster.faults();
    let again = faults.answer(evictions(), Times::Always, Answer::Unavailable);
    until("it is tried again", async || again.hits() > 0).await;
    cluster.delete("high").await;
    leader.until_metric("claims", 0).await;
    again.clear();

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert!(!cluster.is_ending("low").await);
}

#[tokio::test]
async fn a_claim_of_a_deposed_leader_that_arrives_late_is_not_written() {
    let cluster = Following::prepare_priorities(&[node("n1", &[8])]).await;
    let old = Replica::deposable(&cluster, "a").await;
    let (late, high) = loses(&cluster, &old, "/high/status").await;
    old.line.cut();
    cluster.allow("low", 0).await;
    let new = Replica::start(&cluster, "b", TIMING);
    new.until_ready().await;
    let refusal = new.bind(&high, "n1").await;
    assert!(refusal.contains("no card has"), "binds are open: {refusal}");

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(cluster.claim("high").await, None);
}
