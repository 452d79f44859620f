//! A restarted agent knows only what is stored on the node.

use crate::support::pods::simple;
use crate::support::{ALIYUN, World};

#[tokio::test]
async fn a_container_allocated_by_an_earlier_agent_starts_with_the_next() {
    let mut world = World::with_cards(&[8, 8]).await;
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    let name = world.kubelet.cdi_name("a", "main");
    world.stop_agent().await;
    world
        .start_agent(vec![simple("a", 3, &world.card(1))])
        .await;
    world.kubelet.start_container("a", "main").await.unwrap();
    assert_eq!(world.kubelet.cdi_name("a", "main"), name);
    let env = world.environment("a", "main").unwrap();
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(1));
    world.end().await;
}

#[tokio::test]
async fn what_runs_stays_counted_over_a_restart_of_the_agent() {
    let mut world = World::with_cards(&[4, 8]).await;
    let (a, b) = (
        simple("a", 3, &world.card(0)),
        simple("b", 3, &world.card(0)),
    );
    world.show(a.clone());
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    world.stop_agent().await;
    assert!(
        world.environment("a", "main").is_ok(),
        "a running pod keeps its file"
    );
    world.start_agent(vec![a, b]).await;
    world.kubelet.admit("b", "main", ALIYUN, 3).await;
    let status = world
        .kubelet
        .start_container("b", "main")
        .await
        .unwrap_err();
    assert!(status.message().contains("1024 MiB"), "{status}");
    world.kubelet.start_container("a", "main").await.unwrap();
    world.end().await;
}

#[tokio::test]
async fn a_record_changed_while_the_agent_was_away_is_refused() {
    let mut world = World::with_cards(&[8, 8]).await;
    world.show(simple("a", 3, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    world.stop_agent().await;
    world
        .start_agent(vec![simple("a", 3, &world.card(1))])
        .await;
    let status = world
        .kubelet
        .start_container("a", "main")
        .await
        .unwrap_err();
    assert!(status.message().contains("was changed"), "{status}");
    world.end().await;
}

#[tokio::test]
async fn a_container_that_starts_again_finds_the_same_file() {
    let world = World::with_cards(&[8]).await;
    world.show(simple("a", 3, &world.card(0)));
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    let content = || std::fs::read(&world.cdi_files()[0]).unwrap();
    let before = content();
    world.kubelet.start_container("a", "main").await.unwrap();
    assert_eq!(world.cdi_files().len(), 1);
    assert_eq!(content(), before);
    world.end().await;
}

#[tokio::test]
async fn after_a_reboot_has_emptied_the_directory_the_file_is_written_again() {
    let mut world = World::with_cards(&[8]).await;
    let a = simple("a", 3, &world.card(0));
    world.show(a.clone());
    world.kubelet.admit("a", "main", ALIYUN, 3).await;
    world.kubelet.start_container("a", "main").await.unwrap();
    world.stop_agent().await;
    for file in world.cdi_files() {
        std::fs::remove_file(file).unwrap();
    }
    world.kubelet.restart();
    world.start_agent(vec![a]).await;
    assert!(world.environment("a", "main").is_err());
    world.kubelet.start_container("a", "main").await.unwrap();
    assert!(world.environment("a", "main").is_ok());
    world.end().await;
}
