//! Nodes that are deleted before their pods.

use crate::world::{NODE, Running, WHOLE, World, until};

#[tokio::test]
async fn a_node_that_goes_takes_no_price_with_it_not_even_over_a_restart() {
    let world = World::with_budget(36_000).await;
    world.running("p", WHOLE / 4, 0).await;
    let running = world.start_at(400);
    world.until_used("a", 75, 25).await;
    world.delete_node(NODE).await;
    world.uses_at(700, 150, 25).await;
    running.stop().await;
    world.finish("p", 1_000).await;
    let running = world.start_at(1_200);
    until("nobody remembers cards that nobody holds", async || {
        world.ledger().inventories().await.unwrap().is_empty()
    })
    .await;
    world.ends_with(running, &[("p", 1_000, 250_000)]).await;
}

#[tokio::test]
async fn a_pod_whose_cards_nobody_ever_saw_is_let_go_with_its_time_and_no_price() {
    let world = World::with_an_ended_pod(36_000, 100).await;
    world.delete_node(NODE).await;
    let running = world.start_at(200);
    world.ends_with(running, &[("p", 100, 0)]).await;
}

#[tokio::test]
async fn cards_that_are_shown_late_are_charged_from_the_bind() {
    let world = World::with_a_pod(36_000).await;
    world.delete_node(NODE).await;
    let running = world.start_at(700);
    world.until_used("a", 0, 0).await;
    world.node(NODE).await;
    world.charges_until(700).await;
    running.stop().await;
}

impl World {
    /// A pod that its tenant deleted by force while it ran, and whose Node was deleted at 200.
    async fn forced_and_without_node(&self) -> Running {
        self.kubelet_reports(NODE).await;
        self.budget_of_a(36_000).await;
        self.running("p", WHOLE, 0).await;
        let running = self.start_at(100);
        self.charges_until(100).await;
        self.delete("p").await;
        self.charges_until(200).await;
        self.delete_node(NODE).await;
        until("the timekeeper has seen the Node go", async || {
            !running.timekeeper.view().shows_node(NODE)
        })
        .await;
        running
    }
}

#[tokio::test]
async fn a_pod_that_was_deleted_by_force_is_charged_while_its_node_is_registered_again() {
    let world = World::new().await;
    let running = world.forced_and_without_node().await;
    world.charges_until(250).await;
    world.node(NODE).await;
    world.kubelet_reports(NODE).await;
    world.charges_until(1_000).await;
    world.finish("p", 990).await;
    world.until_gone("p").await;
    world.ends_with(running, &[("p", 990, 990_000)]).await;
}

#[tokio::test]
async fn a_pod_that_was_deleted_by_force_is_charged_until_its_node_went_for_good() {
    let world = World::new().await;
    let running = world.forced_and_without_node().await;
    world.at(1_000);
    world.until_gone("p").await;
    world.ends_with(running, &[("p", 200, 200_000)]).await;
}
