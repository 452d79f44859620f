//! The preempt verb, called as kube-scheduler calls it.

use gpushare_apiserver::{On, Times, Verb};
use gpushare_testkit::assert_contains;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::watched::full;
use crate::api::Following;
use crate::asked::Asked;
use crate::cluster::{call, node, post};
use crate::kubernetes::ExtenderPreemptionResult;

const BY_UID: &str = include_str!("../../samples/cache/009-preempt.json");
const WHOLE: &str = include_str!("../../samples/nocache/006-preempt.json");

impl Following {
    /// Asks about nodes and the pods that the scheduler would evict there.
    pub(super) async fn preempt(
        &self,
        pod: &Pod,
        nodes: &[(&str, &[&Pod])],
    ) -> ExtenderPreemptionResult {
        call(&self.extender, "preempt", &question(pod, nodes)).await
    }

    /// The answer names no node, so that no pod is evicted.
    pub(super) async fn preempts_nobody(&self, pod: &Pod, nodes: &[(&str, &[&Pod])]) {
        let result = self.preempt(pod, nodes).await;
        assert!(result.nodes().is_empty(), "{result:?}");
    }
}

/// What the scheduler sends to ask about nodes and the pods that it would evict there.
pub(super) fn question(pod: &Pod, nodes: &[(&str, &[&Pod])]) -> Value {
    let victims = |pods: &[&Pod]| -> Value {
        let pods = pods.iter().map(|pod| json!({"UID": pod.metadata.uid}));
        json!({"Pods": pods.collect::<Vec<_>>(), "NumPDBViolations": 0})
    };
    let nodes: serde_json::Map<String, Value> = nodes
        .iter()
        .map(|(name, pods)| ((*name).to_owned(), victims(pods)))
        .collect();
    json!({"Pod": pod, "NodeNameToVictims": null, "NodeNameToMetaVictims": nodes})
}

fn uids(pods: &[&Pod]) -> Vec<String> {
    let uids = pods.iter().filter_map(|pod| pod.metadata.uid.clone());
    let mut uids: Vec<String> = uids.collect();
    uids.sort();
    uids
}

#[tokio::test]
async fn victims_spread_over_cards_are_exchanged_for_those_of_one_card() {
    let cluster = Following::with_priorities(&[node("n1", &[8, 8])]).await;
    let a = cluster.runs("a", 4, "low", "n1").await;
    let b = cluster.runs("b", 4, "low", "n1").await;
    let c = cluster.runs("c", 4, "low", "n1").await;
    cluster.runs("d", 4, "middle", "n1").await;
    cluster.until_confirmed(4).await;
    let high = cluster.create_of("high", 8, "high").await;
    // One pod of each card, which frees eight GiB in total, but no whole card.
    let result = cluster.preempt(&high, &[("n1", &[&b, &c])]).await;
    assert_eq!(result.victims("n1"), uids(&[&a, &b]));

    // The room is claimed from now on.
    assert_eq!(cluster.metric("claims").await, Some(1));
    let again = cluster.preempt(&high, &[("n1", &[&b, &c])]).await;
    // The answer names the same node, with the victims of the claim that the scheduler has left out.
    assert_eq!(again.victims("n1"), uids(&[&a, &b, &c]));
    cluster.until_claimed("high").await;
    assert_eq!(cluster.evicted(), 0, "the scheduler evicts");
    for gone in ["a", "b"] {
        cluster.delete(gone).await;
    }
    cluster.until_awake("high").await;
    assert_eq!(cluster.bind(&high, "n1").await, "");
}

#[tokio::test]
async fn nodes_where_cards_cannot_be_freed_are_dropped_and_of_the_others_the_best_is_left() {
    let nodes = [node("small", &[4]), node("two", &[8]), node("one", &[8])];
    let cluster = Following::with_priorities(&nodes).await;
    let s = cluster.runs("s", 4, "low", "small").await;
    let t = cluster.runs("t", 4, "low", "two").await;
    let u = cluster.runs("u", 4, "low", "two").await;
    let o = cluster.runs("o", 8, "low", "one").await;
    cluster.until_confirmed(4).await;
    let high = cluster.create_of("high", 8, "high").await;
    let offers: [(&str, &[&Pod]); 3] = [("small", &[&s]), ("two", &[&t, &u]), ("one", &[&o])];
    let result = cluster.preempt(&high, &offers).await;
    assert_eq!(result.nodes(), ["one"]);
    assert_eq!(result.victims("one"), uids(&[&o]));
}

#[tokio::test]
async fn nobody_of_equal_or_higher_priority_is_ever_named() {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let equal = cluster.runs("equal", 4, "middle", "n1").await;
    cluster.runs("low", 4, "low", "n1").await;
    cluster.until_confirmed(2).await;
    let middle = cluster.create_of("middle", 8, "middle").await;
    cluster.preempts_nobody(&middle, &[("n1", &[&equal])]).await;
    assert_eq!(cluster.metric("claims").await, Some(0));
}

#[tokio::test]
async fn who_is_protected_by_a_budget_is_not_named() {
    let cluster = Following::with_priorities(&[node("n1", &[8]), node("n2", &[8])]).await;
    let a = cluster.runs("a", 8, "low", "n1").await;
    let b = cluster.runs("b", 8, "middle", "n2").await;
    cluster.until_confirmed(2).await;
    cluster.allow("a", 0).await;
    let high = cluster.create_of("high", 8, "high").await;
    let offers: [(&str, &[&Pod]); 2] = [("n1", &[&a]), ("n2", &[&b])];
    let result = cluster.preempt(&high, &offers).await;
    assert_eq!(result.nodes(), ["n2"]);
}

#[tokio::test]
async fn while_room_is_claimed_on_one_node_nothing_is_evicted_on_another() {
    let cluster = Following::with_priorities(&[node("n1", &[8, 8]), node("n2", &[8])]).await;
    cluster.runs("a", 5, "low", "n1").await;
    cluster.runs("b", 5, "low", "n1").await;
    let c = cluster.runs("c", 8, "low", "n2").await;
    cluster.until_confirmed(3).await;
    let high = cluster.refused("high", 6, "high").await;
    let victim = cluster.victim_of("high").await;
    cluster.preempts_nobody(&high, &[("n2", &[&c])]).await;
    cluster.until_ending(&victim).await;
    assert!(!cluster.is_ending("c").await);
}

#[tokio::test]
async fn pods_without_cards_stay_named_because_they_go_for_something_else() {
    let (cluster, a) = full("a", "low").await;
    let high = cluster.create_of("high", 8, "high").await;
    let mut other = a.clone();
    other.metadata.uid = Some("no-card".to_owned());
    let result = cluster.preempt(&high, &[("n1", &[&other])]).await;
    assert_eq!(result.victims("n1"), uids(&[&a, &other]));
}

#[tokio::test]
async fn whole_pods_are_understood_too_and_bad_bodies_refused() {
    let (cluster, a) = full("a", "low").await;
    let high = cluster.create_of("high", 8, "high").await;
    let victims = json!({"n1": {"Pods": [a], "NumPDBViolations": 0}});
    let body = json!({"Pod": high, "NodeNameToVictims": victims, "NodeNameToMetaVictims": null});
    let result: ExtenderPreemptionResult = call(&cluster.extender, "preempt", &body).await;
    assert_eq!(result.victims("n1"), uids(&[&a]));
    for body in ["", "{}", "[]", r#"{"Pod":{}}"#] {
        let (status, _) = post(&cluster.extender, "preempt", body).await;
        assert_eq!(status, 400, "{body}");
    }
}

/// The body with our resource and the uids of these pods instead of the captured ones.
fn captured(body: &str, high: &Pod, victims: [&Pod; 2]) -> Value {
    let ours = body.replace("example.com/gpu-mem", "aliyun.com/gpu-mem");
    let mut body: Value = serde_json::from_str(&ours).unwrap();
    for name in ["uid", "namespace"] {
        let metadata = serde_json::to_value(&high.metadata).unwrap();
        body["Pod"]["metadata"][name] = metadata[name].clone();
    }
    for (node, victim) in ["fake-1", "fake-2"].into_iter().zip(victims) {
        for (field, place) in [
            ("NodeNameToMetaVictims", "/Pods/0/UID"),
            ("NodeNameToVictims", "/Pods/0/metadata/uid"),
        ] {
            let uid = body[field]
                .get_mut(node)
                .and_then(|at| at.pointer_mut(place));
            if let Some(uid) = uid {
                *uid = json!(victim.metadata.uid);
            }
        }
    }
    body
}

#[tokio::test]
async fn what_a_real_scheduler_asks_is_answered_with_the_cheapest_node() {
    for body in [BY_UID, WHOLE] {
        let nodes = [node("fake-1", &[8]), node("fake-2", &[8])];
        let cluster = Following::with_priorities(&nodes).await;
        let a = cluster.runs("low-a", 8, "middle", "fake-1").await;
        let b = cluster.runs("low-b", 8, "low", "fake-2").await;
        cluster.until_confirmed(2).await;
        let high = cluster.create_of("high", 8, "high").await;
        let body = captured(body, &high, [&a, &b]);
        let result: ExtenderPreemptionResult = call(&cluster.extender, "preempt", &body).await;
        assert_eq!(result.nodes(), ["fake-2"]);
        assert_eq!(result.victims("fake-2"), uids(&[&b]));
        // The answer was not given before the claim was recorded on the pod.
        let claim = cluster.claim("high").await;
        assert_contains(&claim.unwrap(), "\"evictor\":\"scheduler\"");
    }
}

#[tokio::test]
async fn nobody_is_named_unless_the_claim_could_be_written() {
    let (cluster, a) = full("a", "low").await;
    let high = cluster.create_of("high", 8, "high").await;
    let marks = On::any().verb(Verb::Patch).resource("pods/status");
    let refused = cluster.faults().cut_before(marks, Times::Next(1));
    let body = question(&high, &[("n1", &[&a])]).to_string();
    let (status, _) = post(&cluster.extender, "preempt", body).await;
    assert_eq!((status.as_u16(), refused.hits()), (503, 1));
    // Once the claim is written, the scheduler may go on.
    cluster.until_claimed("high").await;
    let result = cluster.preempt(&high, &[("n1", &[&a])]).await;
    assert_eq!(result.victims("n1"), uids(&[&a]));
}
