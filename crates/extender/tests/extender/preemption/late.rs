//! Requests of a preemption that arrive after something else was decided.

use axum::http::StatusCode;
use gpushare_apiserver::{Answer, Times};
use gpushare_core::names;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::watched::evictions;
use crate::api::{Following, until};
use crate::cluster::{call, node};
use crate::kubernetes::ExtenderFilterResult;
use crate::replicas::{Replica, TIMING};

impl Replica {
    async fn refuses(&self, pod: &Pod, node: &str) {
        let args = json!({"Pod": pod, "NodeNames": [node]});
        let result: ExtenderFilterResult = call(&self.extender, "filter", &args).await;
        assert_eq!(result.node_names.as_deref(), Some(&[][..]), "{result:?}");
    }
}

#[tokio::test]
async fn an_eviction_that_arrives_when_nobody_has_to_go_any_more_evicts_nobody() {
    let cluster = Following::prepare_priorities(&[node("n1", &[8])]).await;
    let leader = Replica::leader(&cluster, "a").await;
    let extender = &leader.extender;
    cluster.runs_by(extender, "low", 8, "low", "n1").await;
    let late = leader.line.lose("/low/eviction");
    let high = cluster.create_of("high", 6, "high").await;
    leader.refuses(&high, "n1").await;
    late.kept(1).await;
    leader.line.keep_no_more();
    let again = cluster
        .server
        .faults()
        .answer(evictions(), Times::Always, Answer::Unavailable);
    until("it is tried again", async || again.hits() > 0).await;
    cluster.delete("high").await;
    until("nothing is claimed", async || {
        leader.metric("claims").await == 0
    })
    .await;
    again.clear();

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert!(!cluster.is_ending("low").await);
}

#[tokio::test]
async fn a_claim_of_a_deposed_leader_that_arrives_late_is_not_written() {
    let cluster = Following::prepare_priorities(&[node("n1", &[8])]).await;
    let old = Replica::deposable(&cluster, "a").await;
    cluster.runs_by(&old.extender, "low", 8, "low", "n1").await;
    let late = old.line.lose("/high/status");
    let high = cluster.create_of("high", 6, "high").await;
    old.refuses(&high, "n1").await;
    late.kept(1).await;
    old.line.cut();
    cluster.allow("low", 0).await;
    let new = Replica::start(&cluster, "b", TIMING);
    new.until_ready().await;
    let refusal = new.bind(&high, "n1").await;
    assert!(refusal.contains("no card has"), "binds are open: {refusal}");

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(cluster.annotation("high", names::PREEMPTION).await, None);
}
