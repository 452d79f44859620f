//! Containers whose pod is gone hold its card until they have ended, even if another pod waits for it.

use gpushare_daemon::Tasks;
use gpushare_node::agent::{self, AgentError};
use gpushare_testkit::until;

use crate::support::pods::simple;
use crate::support::{ALIYUN, World};

async fn start(world: &World, name: &str, gib: u64) {
    world.show(simple(name, gib, &world.card(0)));
    world.kubelet.admit(name, "main", ALIYUN, gib).await;
    world.kubelet.start_container(name, "main").await.unwrap();
}

/// Pod `a` with 6 of 8 GiB is gone but its container runs; pod `b` is next, also with 6 GiB.
async fn outlived() -> World {
    let world = World::with_cards(&[8]).await;
    start(&world, "a", 6).await;
    world.delete_by_force("a");
    world.kubelet.free_pod("a");
    world.show(simple("b", 6, &world.card(0)));
    world.kubelet.admit("b", "main", ALIYUN, 6).await;
    world
}

#[tokio::test]
async fn the_next_pod_does_not_start_beside_a_container_that_has_outlived_its_pod() {
    let world = outlived().await;
    let status = world.kubelet.start_container("b", "main").await;
    let message = status.unwrap_err().message().to_owned();
    assert!(
        message.contains(
            "has 2048 MiB of memory free and the pod takes 6144: containers of pod default/a"
        ),
        "{message}"
    );
    assert!(
        message.contains("starts by itself when they have ended"),
        "{message}"
    );
    assert!(
        world.cdi_files().len() == 1,
        "the file of the container that runs stays, and the other one gets none"
    );
    world.kubelet.end_processes("a");
    world.kubelet.start_container("b", "main").await.unwrap();
    until("the file of a to go", async || world.cdi_files().len() == 1).await;
    world.end().await;
}

#[tokio::test]
async fn a_start_is_held_back_until_a_container_that_ends_soon_has_ended() {
    let world = outlived().await;
    let (started, ()) = tokio::join!(world.kubelet.start_container("b", "main"), async {
        tokio::task::yield_now().await;
        world.kubelet.end_processes("a");
    });
    started.unwrap();
    world.end().await;
}

#[tokio::test]
async fn the_next_agent_finds_containers_that_have_outlived_their_pods() {
    let mut world = outlived().await;
    world.stop_agent().await;
    world
        .start_agent(vec![simple("b", 6, &world.card(0))])
        .await;
    let status = world.kubelet.start_container("b", "main").await;
    let message = status.unwrap_err().message().to_owned();
    assert!(message.contains("containers of pod default/a"), "{message}");
    world.kubelet.end_processes("a");
    world.kubelet.start_container("b", "main").await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_container_whose_end_nobody_could_see_does_not_start() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 6, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 6).await;
    world.kubelet.end_processes("a");
    let status = world.kubelet.start_container("a", "main").await;
    let message = status.unwrap_err().message().to_owned();
    assert!(message.contains("--cgroup-root"), "{message}");
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
