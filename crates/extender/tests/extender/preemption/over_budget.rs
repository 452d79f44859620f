//! Pods that are marked as over budget, or as back in it, whatever their priorities.

use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::watched::full;
use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::node;

const IN_VAIN: &str = "preemptions_total{outcome=\"no_victims\"}";

impl Following {
    /// Marks the pod as the timekeeper does.
    async fn is_over_budget(&self, pod: &str) {
        let budget = Some("vision");
        self.annotate(pod, names::OVER_BUDGET_MARK, budget).await;
    }

    /// What the scheduler writes on a pod if its own checks rule out every node, so that it does not call the
    /// extender.
    async fn is_unschedulable(&self, pod: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "1 Insufficient aliyun.com/gpu-mem"});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let (pods, params) = (self.pods(), PatchParams::default());
        let patched = pods.patch_status(pod, &params, &patch).await;
        patched.unwrap();
    }

    /// Victims are looked for twice more, and no pod is evicted.
    async fn looks_in_vain_again(&self) {
        let looks = async || self.metric(IN_VAIN).await.unwrap_or(0);
        let before = looks().await;
        let again = async || looks().await > before + 1;
        until("victims are looked for in vain", again).await;
        assert_eq!(self.evicted(), 0);
    }
}

/// A card that a pod of middle priority fills, and another pod of that priority, about which the scheduler does not
/// ask. The node is ready, and has these taints.
async fn full_node(taints: Value) -> Following {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let patch = json!({"spec": {"taints": taints}});
    cluster.nodes().merge("n1", patch).await;
    cluster.runs("holder", 8, "middle", "n1").await;
    cluster.until_confirmed(1).await;
    cluster.create_of("pays", 8, "middle").await;
    cluster
}

#[tokio::test]
async fn a_card_full_with_a_demoted_pod_of_equal_priority_is_freed_although_the_scheduler_sees_no_victim()
 {
    let cluster = full_node(json!([])).await;
    cluster.is_unschedulable("pays").await;
    cluster.is_over_budget("holder").await;
    assert_eq!(cluster.victim_of("pays").await, "holder");
    cluster.until_ending("holder").await;
    cluster.delete("holder").await;
    cluster.until_awake("pays").await;
    let pays = cluster.read("pays").await;
    assert_eq!(cluster.bind(&pays, "n1").await, "");
}

#[tokio::test]
async fn nobody_goes_for_a_pod_that_the_scheduler_has_not_refused_or_could_not_put_there() {
    let cluster = full_node(json!([])).await;
    cluster.is_over_budget("holder").await;
    cluster.looks_in_vain_again().await;

    let cluster = full_node(json!([{"key": "mine", "effect": "NoSchedule"}])).await;
    cluster.is_unschedulable("pays").await;
    cluster.is_over_budget("holder").await;
    cluster.looks_in_vain_again().await;
}

#[tokio::test]
async fn a_pod_over_budget_makes_nobody_go_neither_those_within_it_nor_others_like_it() {
    let (cluster, low) = full("low", "low").await;
    cluster.create_of("high", 8, "high").await;
    cluster.is_over_budget("high").await;
    let high = cluster.read("high").await;
    cluster.preempts_nobody(&high, &[("n1", &[&low])]).await;
    cluster.is_over_budget("low").await;
    cluster.preempts_nobody(&high, &[("n1", &[&low])]).await;
    assert_eq!(cluster.metric("claims").await, Some(0));
    // Once it is back in budget, it may preempt.
    let mark = names::OVER_BUDGET_MARK;
    cluster.annotate("high", mark, None).await;
    let high = cluster.read("high").await;
    cluster.refuses(&high, &["n1"]).await;
    assert_eq!(cluster.victim_of("high").await, "low");
}

#[tokio::test]
async fn a_pod_of_the_low_class_that_is_back_in_budget_stays_when_an_ordinary_one_comes() {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let class = json!({"value": -1000, "preemptionPolicy": "Never"});
    cluster.add_class(names::OVER_BUDGET, class).await;
    let restored = cluster.runs("restored", 8, names::OVER_BUDGET, "n1").await;
    let mark = names::RESTORED_MARK;
    cluster.annotate("restored", mark, Some("true")).await;
    cluster.until_confirmed(1).await;
    let ordinary = cluster.create_with("ordinary", 8, json!({})).await;
    let shown = async || {
        let result = cluster.preempt(&ordinary, &[("n1", &[&restored])]).await;
        result.nodes().is_empty()
    };
    until("the scheduler is kept from evicting it", shown).await;
    cluster.is_over_budget("restored").await;
    cluster.annotate("restored", mark, None).await;
    until("it goes once it is over budget again", async || {
        !shown().await
    })
    .await;
}
