//! Which container is meant: one starts only if there is no doubt.

use crate::support::kubelet::Allocation;
use crate::support::pods::{pod, simple};
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
        world.kubelet.start_container("a", container).await.unwrap();
        let env = world.environment("a", container).unwrap();
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], mib, "{container}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_pod_with_only_an_init_container_on_the_card_starts() {
    let world = World::with_cards(&[8]).await;
    world.show(pod("a").init("setup", 2).on(&world.card(0)));
    world.kubelet.admit_init("a", "setup", ALIYUN, 2).await;
    world.kubelet.start_container("a", "setup").await.unwrap();
    assert!(world.environment("a", "setup").is_ok());
    world.end().await;
}

/// Allocates the devices of pod `from` to pod `to` as well, which no kubelet should do.
fn give_again(world: &World, from: &str, to: &str) {
    world.kubelet.remember(Allocation {
        pod: to.to_owned(),
        ..world.kubelet.allocation(from, "main")
    });
}

#[tokio::test]
async fn devices_that_two_pods_hold_start_neither() {
    let world = World::with_cards(&[8]).await;
    for name in ["a", "b"] {
        world.show(simple(name, 2, &world.card(0)));
    }
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    give_again(&world, "a", "b");
    let status = world
        .kubelet
        .start_container("a", "main")
        .await
        .unwrap_err();
    assert!(status.message().contains("uid-a and uid-b"), "{status}");
    assert!(world.cdi_files().is_empty());
    world.kubelet.free_pod("b");
    world.kubelet.start_container("a", "main").await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn devices_that_nobody_holds_start_nothing() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 2, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    let mut ids = world.kubelet.allocation("a", "main").ids;
    ids.pop();
    let status = world.kubelet.pre_start(ALIYUN, ids).await.unwrap_err();
    assert!(status.message().contains("no container"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_container_that_the_kubelets_two_sources_disagree_about_does_not_start() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 2, &world.card(0)));
    // It is in the checkpoint but not in PodResources, as only an init container may be.
    world.kubelet.admit_init("a", "main", ALIYUN, 2).await;
    let status = world
        .kubelet
        .start_container("a", "main")
        .await
        .unwrap_err();
    assert!(status.message().contains("PodResources"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_starts_nothing_and_is_named() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 2, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    world.kubelet.break_checkpoint("{");
    let status = world
        .kubelet
        .start_container("a", "main")
        .await
        .unwrap_err();
    assert!(status.message().contains("checkpoint"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_kubelet_that_is_asked_too_often_is_asked_again() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 2, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 2).await;
    world.kubelet.with_memory(|memory| memory.refuse_lists = 3);
    world.kubelet.start_container("a", "main").await.unwrap();
    assert_eq!(world.kubelet.with_memory(|memory| memory.lists), 4);
    world.end().await;
}
