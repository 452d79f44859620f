//! Pods that are marked as over budget, or as back in it, whatever their priorities.

use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::api::{Following, until};
use crate::cluster::{get, node};

const IN_VAIN: &str = "gpushare_extender_preemptions_total{outcome=\"no_victims\"}";

impl Following {
    /// Sets or removes a mark, as the timekeeper does.
    async fn mark(&self, pod: &str, mark: &str, value: Option<&str>) {
        let patch = json!({mark: value});
        self.pods().annotate(pod, patch).await;
    }

    async fn is_over_budget(&self, pod: &str) {
        self.mark(pod, names::OVER_BUDGET_MARK, Some("vision"))
            .await;
    }

    /// What the scheduler writes on a pod when it finds no node by itself; it does not ask us then.
    async fn is_unschedulable(&self, pod: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "1 Insufficient aliyun.com/gpu-mem"});
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        let params = PatchParams::default();
        self.pods()
            .patch_status(pod, &params, &patch)
            .await
            .unwrap();
    }

    async fn looks_in_vain(&self) -> u64 {
        let (_, metrics) = get(&self.extender, "/metrics").await;
        let line = metrics.lines().find_map(|line| line.strip_prefix(IN_VAIN));
        line.map_or(0, |count| count.trim().parse().unwrap())
    }

    /// Victims are looked for twice more, and no pod is evicted.
    async fn looks_in_vain_again(&self) {
        let before = self.looks_in_vain().await;
        until("victims are looked for in vain", async || {
            self.looks_in_vain().await > before + 1
        })
        .await;
        assert_eq!(self.evicted(), 0);
    }
}

/// A card that a pod of middle priority fills, and another pod of that priority, about which the scheduler does not
/// ask. The node is ready, and has these taints.
async fn full(taints: Value) -> Following {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let patch = json!({"spec": {"taints": taints}});
    nodes.merge("n1", patch).await;
    cluster.runs("holder", 8, "middle", "n1").await;
    cluster.until_booked(1).await;
    cluster.create_of("pays", 8, "middle").await;
    cluster
}

#[tokio::test]
async fn a_card_full_with_a_demoted_pod_of_equal_priority_is_freed_although_the_scheduler_sees_no_victim()
 {
    let cluster = full(json!([])).await;
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
    let cluster = full(json!([])).await;
    cluster.is_over_budget("holder").await;
    cluster.looks_in_vain_again().await;

    let cluster = full(json!([{"key": "mine", "effect": "NoSchedule"}])).await;
    cluster.is_unschedulable("pays").await;
    cluster.is_over_budget("holder").await;
    cluster.looks_in_vain_again().await;
}

#[tokio::test]
async fn a_pod_over_budget_makes_nobody_go_neither_those_within_it_nor_others_like_it() {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let low = cluster.runs("low", 8, "low", "n1").await;
    cluster.until_booked(1).await;
    let high = cluster.create_of("high", 8, "high").await;
    cluster.is_over_budget("high").await;
    let high: Pod = cluster.read(high.metadata.name.as_deref().unwrap()).await;
    let result = cluster.preempt(&high, &[("n1", &[&low])]).await;
    assert!(result.nodes().is_empty(), "{result:?}");
    cluster.is_over_budget("low").await;
    let result = cluster.preempt(&high, &[("n1", &[&low])]).await;
    assert!(result.nodes().is_empty(), "{result:?}");
    assert_eq!(cluster.claims().await, 0);
    // Once it is back in budget, it may preempt.
    cluster.mark("high", names::OVER_BUDGET_MARK, None).await;
    let high = cluster.read("high").await;
    cluster.is_refused(&high, &["n1"]).await;
    assert_eq!(cluster.victim_of("high").await, "low");
}

#[tokio::test]
async fn a_pod_of_the_low_class_that_is_back_in_budget_stays_when_an_ordinary_one_comes() {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
    let class = json!({"metadata": {"name": names::OVER_BUDGET}, "value": -1000,
        "preemptionPolicy": "Never"});
    classes.add(class).await;
    let restored = cluster.runs("restored", 8, names::OVER_BUDGET, "n1").await;
    cluster
        .mark("restored", names::RESTORED_MARK, Some("true"))
        .await;
    cluster.until_booked(1).await;
    let ordinary = cluster.create_with("ordinary", 8, json!({})).await;
    let shown = async || {
        let result = cluster.preempt(&ordinary, &[("n1", &[&restored])]).await;
        result.nodes().is_empty()
    };
    until("the scheduler is kept from evicting it", shown).await;
    cluster.is_over_budget("restored").await;
    cluster.mark("restored", names::RESTORED_MARK, None).await;
    until("it goes once it is over budget again", async || {
        !shown().await
    })
    .await;
}
