//! A restarted agent knows only what is stored on the node.

use gpushare_testkit::assert_contains;

use crate::support::World;

#[tokio::test]
async fn a_container_allocated_by_an_earlier_agent_starts_with_the_next() {
    let mut world = World::with_cards(&[8, 8]).await;
    world.admit("a", 3).await;
    let name = world.kubelet.cdi_name("a", "main");
    world.restart_agent(vec![world.simple("a", 3, 1)]).await;
    let env = world.started("a", "main").await;
    assert_eq!(world.kubelet.cdi_name("a", "main"), name);
    assert_eq!(env["NVIDIA_VISIBLE_DEVICES"], world.card(1));
    world.end().await;
}

#[tokio::test]
async fn what_runs_stays_counted_over_a_restart_of_the_agent() {
    let mut world = World::with_cards(&[4, 8]).await;
    let both = ["a", "b"].map(|name| world.simple(name, 3, 0));
    world.run("a", 3, 0).await;
    world.stop_agent().await;
    assert!(
        world.environment("a", "main").is_ok(),
        "a running pod keeps its file"
    );
    world.start_agent(both.into()).await;
    world.admit("b", 3).await;
    assert_contains(&world.refusal("b").await, "1024 MiB");
    world.start("a").await;
    world.end().await;
}

#[tokio::test]
async fn a_record_changed_while_the_agent_was_away_is_refused() {
    let mut world = World::with_cards(&[8, 8]).await;
    world.run("a", 3, 0).await;
    world.restart_agent(vec![world.simple("a", 3, 1)]).await;
    assert_contains(&world.refusal("a").await, "was changed");
    world.end().await;
}

#[tokio::test]
async fn a_container_that_starts_again_finds_the_same_file() {
    let world = World::with_running(3).await;
    let content = || std::fs::read(&world.cdi_files()[0]).unwrap();
    let before = content();
    world.start("a").await;
    assert_eq!(world.cdi_files().len(), 1);
    assert_eq!(content(), before);
    world.end().await;
}

#[tokio::test]
async fn after_a_reboot_has_emptied_the_directory_the_file_is_written_again() {
    let mut world = World::with_running(3).await;
    world.stop_agent().await;
    for file in world.cdi_files() {
        std::fs::remove_file(file).unwrap();
    }
    world.kubelet.restart();
    world.start_agent(vec![world.simple("a", 3, 0)]).await;
    assert!(world.environment("a", "main").is_err());
    world.started("a", "main").await;
    world.end().await;
}
