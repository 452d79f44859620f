//! Preemption: pods of lower priority are evicted for a pod that no card can take, and it gets their room.

mod late;
mod over_budget;
mod undecided;
mod verb;
mod watched;

use gpushare_apiserver::{Gate, On, Times, Verb};
use gpushare_extender::config::Config;
use gpushare_testkit::assert_contains;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::api::{Following, card_of, node_of, until};
use crate::asked::Asked;
use crate::cluster::{config, node};
use crate::replicas::{Replica, TIMING};
use watched::{evictions, fragmented, full};

/// Room is claimed for the pod `high`, and the eviction of its victim does not arrive until the gate is released.
async fn evicting() -> (Following, Pod, Gate) {
    let cluster = fragmented().await;
    let gate = cluster.faults().hold_before(evictions());
    let high = cluster.refused("high", 6, "high").await;
    cluster.until_claimed("high").await;
    gate.reached(1).await;
    (cluster, high, gate)
}

#[tokio::test]
async fn where_the_total_suffices_and_no_card_does_one_pod_goes_and_its_card_is_kept() {
    let cluster = fragmented().await;
    let high = cluster.refused("high", 6, "high").await;
    let claim = cluster.until_claimed("high").await;
    let victim = &cluster.victim_of("high").await;
    cluster.until_ending(victim).await;
    assert_eq!(cluster.nominated("high").await.as_deref(), Some("n1"));
    let said = cluster.until_event(victim, "Preempted").await;
    assert_contains(&said, "on node n1");
    let said = cluster.until_event("high", "Preempting").await;
    assert!(
        said.starts_with("1 pod of lower priority is evicted from GPU-n1-"),
        "{said}"
    );

    // Until the victim is gone there is no room for the pod; after that there is room for no other pod.
    assert!(!cluster.fits(&high, "n1").await);
    cluster.delete(victim).await;
    cluster.until_awake("high").await;
    let thief = cluster.create_of("thief", 4, "low").await;
    assert!(!cluster.fits(&thief, "n1").await);
    assert_ne!(cluster.bind(&thief, "n1").await, "");
    assert!(cluster.fits(&high, "n1").await);
    assert_eq!(cluster.bind(&high, "n1").await, "");
    let bound = cluster.read("high").await;
    assert_eq!(node_of(&bound), Some("n1"));
    let claimed = &claim["room"]["containers"][0]["cards"][0]["id"];
    assert_eq!(card_of(&bound), *claimed);
    cluster.until_metric("claims", 0).await;
    assert_eq!(cluster.evicted(), 1, "nobody else had to go");
}

#[tokio::test]
async fn pods_of_equal_priority_stay_and_so_do_all_where_the_policy_is_never() {
    let (cluster, _) = full("a", "middle").await;
    let equal = cluster.create_of("equal", 6, "middle").await;
    let never = json!({"priorityClassName": "high", "preemptionPolicy": "Never"});
    let never = cluster.create_with("never", 6, never).await;
    cluster.refuses(&equal, &["n1"]).await;
    cluster.refuses(&never, &["n1"]).await;
    // A later pod that may preempt gets a victim; the two before it did not.
    cluster.refused("high", 6, "high").await;
    cluster.until_ending("a").await;
    for waiting in ["equal", "never"] {
        assert_eq!(cluster.claim(waiting).await, None);
    }
}

#[tokio::test]
async fn a_budget_sends_another_pod_in_place_of_the_one_it_protects() {
    let cluster = Following::with_priorities(&[node("n1", &[8, 8])]).await;
    cluster.runs("low", 5, "low", "n1").await;
    cluster.runs("middle", 5, "middle", "n1").await;
    cluster.until_confirmed(2).await;
    cluster.allow("low", 0).await;
    cluster.refused("high", 6, "high").await;
    cluster.until_ending("middle").await;
    assert!(!cluster.is_ending("low").await);
}

#[tokio::test]
async fn where_budgets_protect_all_nobody_goes_the_owner_reads_why_and_it_is_tried_again() {
    let (cluster, _) = full("low", "low").await;
    cluster.allow("low", 0).await;
    cluster.refused("high", 6, "high").await;
    let said = cluster.until_event("high", "PreemptionBlocked").await;
    assert_contains(&said, "disruption budgets");
    assert!(!cluster.is_ending("low").await);
    assert_eq!(cluster.evicted(), 0);
    assert_eq!(cluster.metric("claims").await, Some(0));
    cluster.allow("low", 1).await;
    cluster.until_ending("low").await;
}

#[tokio::test]
async fn a_victim_that_a_budget_keeps_at_the_last_moment_is_let_off() {
    let (cluster, _, gate) = evicting().await;
    let (kept, other) = match cluster.victim_of("high").await.as_str() {
        "a" => ("a", "b"),
        _ => ("b", "a"),
    };
    cluster.allow(kept, 0).await;
    gate.release();
    cluster.until_ending(other).await;
    assert!(!cluster.is_ending(kept).await);
    assert_eq!(cluster.evicted(), 2);
}

#[tokio::test]
async fn an_api_server_that_fails_is_asked_again_and_nobody_goes_without_a_written_claim() {
    let cluster = fragmented().await;
    let marks = On::any()
        .verb(Verb::Patch)
        .resource("pods/status")
        .name("high");
    let faults = cluster.faults();
    let refused = faults.cut_before(marks, Times::Next(2));
    let cut = faults.cut_after(evictions(), Times::Next(1));
    cluster.refused("high", 6, "high").await;
    let failed = async || refused.hits() > 0;
    until("the claim could not be written", failed).await;
    assert_eq!(cluster.evicted(), 0);
    let victim = cluster.victim_of("high").await;
    cluster.until_ending(&victim).await;
    assert_eq!(cut.hits(), 1);
}

#[tokio::test]
async fn a_restarted_extender_keeps_the_room_and_goes_on() {
    let (cluster, high, gate) = evicting().await;
    cluster.tasks.shutdown().cancel();
    gate.release();

    let successor = cluster.restarted(config()).await;
    assert_eq!(successor.metric("claims").await, Some(1));
    let victim = &successor.victim_of("high").await;
    successor.until_ending(victim).await;
    assert!(!successor.fits(&high, "n1").await);
    successor.delete(victim).await;
    successor.until_awake("high").await;
    assert!(successor.fits(&high, "n1").await);
    assert_eq!(successor.bind(&high, "n1").await, "");
}

#[tokio::test]
async fn a_preemptor_that_is_deleted_gives_its_room_back() {
    let cluster = fragmented().await;
    cluster.refused("high", 6, "high").await;
    let victim = &cluster.victim_of("high").await;
    cluster.until_ending(victim).await;
    cluster.delete("high").await;
    cluster.delete(victim).await;
    let next = cluster.create_of("next", 8, "low").await;
    let fits = async || cluster.fits(&next, "n1").await;
    until("another pod may have the card", fits).await;
    assert_eq!(cluster.metric("claims").await, Some(0));
}

#[tokio::test]
async fn a_pod_of_still_higher_priority_takes_a_claim_over() {
    let (cluster, _) = full("low", "low").await;
    let middle = cluster.refused("middle", 8, "middle").await;
    cluster.until_claimed("middle").await;
    cluster.until_ending("low").await;
    let high = cluster.refused("high", 8, "high").await;
    cluster.until_claimed("high").await;
    cluster.until_unclaimed("middle").await;
    cluster.delete("low").await;
    cluster.until_awake("high").await;
    assert!(!cluster.fits(&middle, "n1").await);
    assert_eq!(cluster.bind(&high, "n1").await, "");
    assert_eq!(cluster.evicted(), 1);
}

#[tokio::test]
async fn a_nomination_that_the_scheduler_takes_back_is_made_again_while_room_is_awaited() {
    let cluster = fragmented().await;
    cluster.refused("high", 6, "high").await;
    let victim = cluster.victim_of("high").await;
    cluster.until_ending(&victim).await;
    let cleared = json!({"nominatedNodeName": null});
    cluster.pods().merge_status("high", cleared).await;
    let again = until("it is nominated again", async || {
        cluster.nominated("high").await
    });
    assert_eq!(again.await, "n1");
}

#[tokio::test]
async fn another_leader_goes_on_where_the_last_one_was_cut_off() {
    let cluster = Following::prepare_priorities(&[node("n1", &[8])]).await;
    let first = Replica::deposable(&cluster, "first").await;
    cluster.runs_by(&first, "low", 8, "low", "n1").await;
    let high = cluster.create_of("high", 8, "high").await;
    let evictions = cluster.faults().hold_before(evictions());
    until("the pod is refused", async || {
        let result = first.filter(&high, &["n1"]).await;
        result.refused().contains_key("n1")
    })
    .await;
    cluster.until_claimed("high").await;
    evictions.reached(1).await;
    first.line.cut();
    let second = Replica::start(&cluster, "second", TIMING);
    second.until_ready().await;
    assert_eq!(second.metric("claims").await, Some(1));
    evictions.release();
    cluster.until_ending("low").await;
    cluster.delete("low").await;
    cluster.until_awake("high").await;
    assert!(second.fits(&high, "n1").await);
    assert_eq!(second.bind(&high, "n1").await, "");
    first.line.mend();
    for replica in [&first, &second] {
        replica.until_metric("claims", 0).await;
    }
}

#[tokio::test]
async fn an_extender_that_is_not_to_preempt_evicts_nobody_and_takes_off_what_it_finds() {
    let (cluster, high, _evictions) = evicting().await;
    let without = Config {
        preempt: false,
        ..config()
    };
    let successor = cluster.restarted(without).await;
    successor.until_unclaimed("high").await;
    assert_eq!(successor.metric("claims").await, Some(0));
    successor.refuses(&high, &["n1"]).await;
    let a = successor.read("a").await;
    successor.preempts_nobody(&high, &[("n1", &[&a])]).await;
    assert_eq!(successor.evicted(), 1, "only what was under way before");
}

#[tokio::test]
async fn a_pod_that_is_refused_before_the_watch_shows_it_preempts_all_the_same() {
    let (cluster, _) = full("low", "low").await;
    let _hidden = cluster.hide_pods().await;
    cluster.refused("high", 8, "high").await;
    cluster.until_ending("low").await;
}
