//! The timekeeper is down while things happen.

use crate::world::{WHOLE, World, lines};

#[tokio::test]
async fn a_restart_in_the_middle_of_a_life_loses_nothing_and_charges_nothing_twice() {
    let world = World::with_budget(36_000).await;
    world.running("p", WHOLE, 10).await;
    for stop in [700, 701, 1_199, 4_000] {
        let running = world.start_at(stop);
        let charged = stop - stop % 300;
        world.until_used("a", charged - 10, stop - charged).await;
        running.stop().await;
    }
    world.finish("p", 4_321).await;
    let running = world.start_at(5_000);
    world.ends_with(running, &[("p", 4_311, 4_311_000)]).await;
}

#[tokio::test]
async fn pods_that_start_and_end_while_nobody_is_there_are_charged_when_somebody_is() {
    let world = World::with_budget(36_000).await;
    for (name, gib, from, to) in [
        ("one", 16, 0, 1_000),
        ("two", 4, 50, 451),
        ("three", 8, 2_000, 2_001),
    ] {
        world.running(name, gib, from).await;
        world.finish(name, to).await;
        world.delete(name).await;
    }
    let running = world.start_at(9_000);
    for name in ["one", "two", "three"] {
        world.until_gone(name).await;
    }
    let used = [
        ("one", 1_000, 1_000_000),
        ("three", 1, 500),
        ("two", 401, 100_250),
    ];
    assert_eq!(world.statement().await, lines(&used));
    world.audit().await;
    running.stop().await;
}

#[tokio::test]
async fn a_pod_that_went_without_a_word_while_nobody_was_there_ends_with_what_is_known() {
    let (world, running) = World::charging(36_000, 700).await;
    running.stop().await;
    world.vanish("p").await;
    let running = world.start_at(5_000);
    world.until_settled().await;
    world.ends_with(running, &[("p", 600, 600_000)]).await;
}

#[tokio::test]
async fn a_broken_watch_loses_nothing() {
    let world = World::with_budget(36_000).await;
    let running = world.start_at(100);
    world.until_used("a", 0, 0).await;
    world.server.faults().cut_watches();
    world.running("p", WHOLE, 50).await;
    world.server.faults().cut_watches();
    world.until_used("a", 0, 50).await;
    world.finish("p", 90).await;
    world.server.faults().cut_watches();
    world.ends_with(running, &[("p", 40, 40_000)]).await;
}
