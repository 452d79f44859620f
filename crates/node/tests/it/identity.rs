//! Which container is meant: one starts only if there is no doubt.

use gpushare_testkit::assert_contains;

use crate::support::pods::pod;
use crate::support::{ALIYUN, SLOTS, World};

#[tokio::test]
async fn an_app_container_with_the_devices_of_an_init_container_gets_its_own_share() {
    let world = World::with_cards(&[8]).await;
    let asking = pod("a").init_mib("setup", 1000).app_mib("main", 2000);
    world.show(asking.on(&world.card(0)));
    world.kubelet.admit_init("a", "setup", SLOTS, 1).await;
    world.kubelet.admit_reusing("a", "main", "setup").await;
    assert_ne!(
        world.kubelet.cdi_name("a", "setup"),
        world.kubelet.cdi_name("a", "main")
    );
    for (container, mib) in [("setup", "1000"), ("main", "2000")] {
        let env = world.started("a", container).await;
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], mib, "{container}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_pod_with_only_an_init_container_on_the_card_starts() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").init("setup", 2).on(&world.card(0)));
    world.kubelet.admit_init("a", "setup", ALIYUN, 2).await;
    world.started("a", "setup").await;
    world.end().await;
}

#[tokio::test]
async fn devices_that_two_pods_hold_start_neither() {
    let world = World::with_cards(&[8]).await;
    world.show(world.simple("b", 2, 0));
    world.place("a", 2, 0).await;
    world.kubelet.give_again("a", "b");
    assert_contains(&world.refusal("a").await, "uid-a and uid-b");
    assert!(world.cdi_files().is_empty());
    world.kubelet.free_pod("b");
    world.start("a").await;
    world.end().await;
}

#[tokio::test]
async fn devices_that_nobody_holds_start_nothing() {
    let world = World::with_placed(2).await;
    let mut ids = world.kubelet.allocation("a", "main").ids;
    ids.pop();
    let status = world.kubelet.pre_start(ALIYUN, ids).await.unwrap_err();
    assert_contains(status.message(), "no container");
    world.end().await;
}

#[tokio::test]
async fn a_container_that_the_kubelets_two_sources_disagree_about_does_not_start() {
    let world = World::with_cards(&[8]).await;
    world.show(world.simple("a", 2, 0));
    // It is in the checkpoint but not in PodResources, as only an init container may be.
    world.kubelet.admit_init("a", "main", ALIYUN, 2).await;
    assert_contains(&world.refusal("a").await, "PodResources");
    world.end().await;
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_starts_nothing_and_is_named() {
    let world = World::with_placed(2).await;
    world.kubelet.break_checkpoint("{");
    assert_contains(&world.refusal("a").await, "checkpoint");
    world.end().await;
}

#[tokio::test]
async fn a_kubelet_that_is_asked_too_often_is_asked_again() {
    let world = World::with_placed(2).await;
    world.kubelet.refuse_lists(3);
    world.start("a").await;
    assert_eq!(world.kubelet.lists(), 4);
    world.end().await;
}
