//! What pods leave behind is removed when they are gone, and not before.

use gpushare_testkit::until;

use crate::support::World;
use crate::support::pods::pod;

/// A node on which pods `a` and `b` run.
async fn with_two_pods() -> World {
    let world = World::with_running(2).await;
    world.run("b", 2, 0).await;
    world
}

/// Waits until the file of one pod is gone and that of `b` is left.
async fn until_only_b_is_left(world: &World) {
    until("the file of a to go", async || world.cdi_files().len() == 1).await;
    assert!(world.environment("b", "main").is_ok());
}

#[tokio::test]
async fn the_file_of_a_deleted_pod_is_removed_and_no_other() {
    let world = with_two_pods().await;
    let foreign = world.cdi_dir().join("vendor.json");
    std::fs::write(&foreign, "{}").unwrap();
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
    let world = with_two_pods().await;
    world.kubelet.end_processes("a");
    world.list(vec![world.simple("b", 2, 0)]);
    until_only_b_is_left(&world).await;
    world.end().await;
}

#[tokio::test]
async fn an_ended_pod_keeps_its_file_and_frees_its_card() {
    let world = World::with_cards(&[4]).await;
    world.run("a", 4, 0).await;
    world.kubelet.free_pod("a");
    world.place("b", 4, 0).await;
    world.refusal("b").await;
    world.kubelet.end_processes("a");
    let ended = pod("a").app("main", 4).phase("Succeeded");
    world.show(ended.on(&world.card(0)));
    world.start("b").await;
    assert_eq!(world.cdi_files().len(), 2);
    world.end().await;
}

#[tokio::test]
async fn files_of_pods_that_left_while_the_agent_was_away_go_after_the_first_list() {
    let mut world = with_two_pods().await;
    world.stop_agent().await;
    world.kubelet.end_processes("a");
    world.start_agent_unlisted();
    world.registered().await;
    assert_eq!(
        world.cdi_files().len(),
        2,
        "nothing is known of the pods yet"
    );
    world.list(vec![world.simple("b", 2, 0)]);
    until_only_b_is_left(&world).await;
    world.end().await;
}
