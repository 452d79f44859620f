//! Containers whose pod is gone hold its card until they have ended, even if another pod waits for it.

use gpushare_daemon::Tasks;
use gpushare_node::agent::{self, AgentError};
use gpushare_testkit::{assert_contains, until};

use crate::support::World;

/// Pod `a` with 6 of 8 GiB is gone but its container runs; pod `b` is next, also with 6 GiB.
async fn outlived() -> World {
    let world = World::with_running(6).await;
    world.delete_by_force("a");
    world.kubelet.free_pod("a");
    world.place("b", 6, 0).await;
    world
}

#[tokio::test]
async fn the_next_pod_does_not_start_beside_a_container_that_has_outlived_its_pod() {
    let world = outlived().await;
    let message = world.refusal("b").await;
    assert_contains(
        &message,
        "has 2048 MiB of memory free and the pod takes 6144: containers of pod default/a",
    );
    assert_contains(&message, "starts by itself when they have ended");
    assert!(
        world.cdi_files().len() == 1,
        "the file of the container that runs stays, and the other one gets none"
    );
    world.kubelet.end_processes("a");
    world.start("b").await;
    until("the file of a to go", async || world.cdi_files().len() == 1).await;
    world.end().await;
}

#[tokio::test]
async fn a_start_is_held_back_until_a_container_that_ends_soon_has_ended() {
    let world = outlived().await;
    tokio::join!(world.start("b"), async {
        tokio::task::yield_now().await;
        world.kubelet.end_processes("a");
    });
    world.end().await;
}

#[tokio::test]
async fn the_next_agent_finds_containers_that_have_outlived_their_pods() {
    let mut world = outlived().await;
    world.restart_agent(vec![world.simple("b", 6, 0)]).await;
    assert_contains(&world.refusal("b").await, "containers of pod default/a");
    world.kubelet.end_processes("a");
    world.start("b").await;
    world.end().await;
}

#[tokio::test]
async fn a_container_whose_end_nobody_could_see_does_not_start() {
    let world = World::with_placed(6).await;
    world.kubelet.end_processes("a");
    assert_contains(&world.refusal("a").await, "--cgroup-root");
    assert!(world.cdi_files().is_empty());
    world.end().await;
}

#[tokio::test]
async fn an_agent_that_sees_no_control_groups_says_so_at_its_start() {
    let world = World::with_cards(&[8]).await;
    let mut config = world.config();
    config.cgroup_root = config.cdi_dir.clone();
    let tasks = Tasks::new();
    let error = agent::start(&config, None, &tasks).unwrap_err();
    assert!(matches!(error, AgentError::Cgroups(_)), "{error}");
    tasks.shutdown().cancel();
    world.end().await;
}
