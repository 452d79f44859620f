//! A pod's life, from its bind to its object's end.

use gpushare_apiserver::{Answer, On, Times, Verb};
use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::world::{WHOLE, World, until};

#[tokio::test]
async fn a_pods_whole_life_is_charged_to_the_second_and_then_its_object_may_go() {
    let world = World::with_budget(3_600).await;
    world.running("p", WHOLE / 2, 10).await;
    let running = world.start_at(700);
    world.until_used("a", 295, 50).await;
    world.finish("p", 777).await;
    world.delete("p").await;
    world.at(800);
    world.until_gone("p").await;
    world.until_statement(&[("p", 767, 383_500)]).await;
    let status = world.until_status("a", "everything is charged", |status| {
        status.held_seconds == Some(0)
    });
    let status = status.await;
    assert_eq!(status.used_seconds, Some(383));
    assert_eq!(status.remaining_seconds, Some(3_216));
    running.stop().await;
}

#[tokio::test]
async fn a_running_pod_is_charged_whatever_its_tenant_annotates() {
    let (world, running) = World::charging(36_000, 400).await;
    // Each of these would be invalid on a pod that waits for a node.
    let senseless = json!({
        names::POLICY: "x", names::CARD_MODELS: ",", names::CARD_IDS: "",
        names::EXCLUDE_CARD_IDS: ",", names::EXCLUDE_CARD_MODELS: "--",
    });
    world.pods("a").annotate("p", senseless).await;
    world.charges_until(7_300).await;
    assert_eq!(world.pod("p").await.finalizers(), [names::METERING]);

    // The next leader has nothing but the pod and the ledger.
    running.stop().await;
    let running = world.start();
    world.finish("p", 8_000).await;
    world.delete("p").await;
    world.at(8_100);
    world.until_gone("p").await;
    world.ends_with(running, &[("p", 8_000, 8_000_000)]).await;
}

#[tokio::test]
async fn a_pod_that_has_ended_keeps_its_object_and_loses_its_finalizer() {
    let world = World::with_an_ended_pod(3_600, 90).await;
    let running = world.start_at(100);
    world.until_released("p").await;
    assert!(world.pods("a").get_opt("p").await.unwrap().is_some());
    world.ends_with(running, &[("p", 90, 90_000)]).await;
}

#[tokio::test]
async fn a_pod_that_never_ran_costs_nothing_and_goes_when_it_is_deleted() {
    let world = World::with_budget(3_600).await;
    world.create("p", WHOLE).await;
    let running = world.start();
    world.until_used("a", 0, 0).await;
    assert_eq!(world.pod("p").await.finalizers(), [names::METERING]);
    world.delete("p").await;
    world.until_gone("p").await;
    assert_eq!(world.statement().await, []);
    running.stop().await;
}

#[tokio::test]
async fn others_finalizers_stay() {
    let world = World::with_budget(3_600).await;
    let both = ["example.com/mine", names::METERING];
    world.running_with("p", WHOLE, &both, 0).await;
    world.finish("p", 5).await;
    let running = world.start_at(10);
    until("ours is gone", async || {
        world.pod("p").await.finalizers() == ["example.com/mine"]
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn a_finalizer_that_cannot_be_taken_off_at_first_goes_in_a_later_round() {
    let world = World::with_an_ended_pod(3_600, 5).await;
    let patches = On::any().verb(Verb::Patch).resource("pods");
    let faults = world.server.faults();
    faults.answer(patches, Times::Next(3), Answer::InternalError);
    let running = world.start_at(10);
    world.ends_with(running, &[("p", 5, 5_000)]).await;
}

#[tokio::test]
async fn a_pod_that_loses_its_finalizer_by_force_is_charged_until_it_is_gone() {
    let (world, running) = World::charging(3_600, 400).await;
    world.delete("p").await;
    // No finish time ever arrives. Only the deletion is known, and by the real clock that was long before.
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    let _raced = world
        .pods("a")
        .patch("p", &PatchParams::default(), &patch)
        .await;
    world.until_gone("p").await;
    world.until_settled().await;
    world.audit().await;
    running.stop().await;
}
