//! What pods leave behind is removed when they are gone, and not before.

use gpushare_testkit::until;

use crate::support::pods::{pod, simple};
use crate::support::{ALIYUN, World};

async fn start(world: &World, name: &str, gib: u64) {
    world.show(simple(name, gib, &world.card(0)));
    world.kubelet.admit(name, "main", ALIYUN, gib).await;
    world.kubelet.start_container(name, "main").await.unwrap();
}

#[tokio::test]
async fn the_file_of_a_deleted_pod_is_removed_and_no_other() {
    let world = World::with_cards(&[8]).await;
    let foreign = world.cdi_dir().join("vendor.json");
    std::fs::write(&foreign, "{}").unwrap();
    start(&world, "a", 2).await;
    start(&world, "b", 2).await;
    world.delete("a");
    until("the file of a to go", async || {
        world.environment("a", "main").is_err()
    })
    .await;
    assert!(world.environment("b", "main").is_ok());
    assert!(foreign.exists());
    world.end().await;
}

#[tokio::test]
async fn a_pod_missing_from_a_new_list_is_gone_too() {
    let world = World::with_cards(&[8]).await;
    start(&world, "a", 2).await;
    start(&world, "b", 2).await;
    world.kubelet.end_processes("a");
    world
        .agent()
        .state
        .reset(vec![simple("b", 2, &world.card(0))]);
    until("the file of a to go", async || world.cdi_files().len() == 1).await;
    assert!(world.environment("b", "main").is_ok());
    world.end().await;
}

#[tokio::test]
async fn an_ended_pod_keeps_its_file_and_frees_its_card() {
    let world = World::with_cards(&[4]).await;
    start(&world, "a", 4).await;
    world.kubelet.free_pod("a");
    world.show(simple("b", 4, &world.card(0)));
    world.kubelet.admit("b", "main", ALIYUN, 4).await;
    world
        .kubelet
        .start_container("b", "main")
        .await
        .unwrap_err();
    world.kubelet.end_processes("a");
    let ended = pod("a").app("main", 4).phase("Succeeded");
    world.show(ended.on(&world.card(0)));
    world.kubelet.start_container("b", "main").await.unwrap();
    assert_eq!(world.cdi_files().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn files_of_pods_that_left_while_the_agent_was_away_go_after_the_first_list() {
    let mut world = World::with_cards(&[8]).await;
    start(&world, "a", 2).await;
    start(&world, "b", 2).await;
    world.stop_agent().await;
    world.kubelet.end_processes("a");
    world.start_agent_unlisted();
    world.registered().await;
    assert_eq!(
        world.cdi_files().len(),
        2,
        "nothing is known of the pods yet"
    );
    world
        .agent()
        .state
        .reset(vec![simple("b", 2, &world.card(0))]);
    until("the file of a to go", async || world.cdi_files().len() == 1).await;
    assert!(world.environment("b", "main").is_ok());
    world.end().await;
}
