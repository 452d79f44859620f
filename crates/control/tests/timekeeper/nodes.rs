//! Nodes that go before their pods.

use kube::api::DeleteParams;

use crate::world::{NODE, WHOLE, World, until};

#[tokio::test]
async fn a_node_that_goes_takes_no_price_with_it_not_even_over_a_restart() {
    let world = World::new().await;
    world.budget_of_a(36_000).await;
    world.running("p", WHOLE / 4, 0).await;
    world.at(400);
    let running = world.start();
    world.until_used("a", 75, 25).await;
    world
        .nodes()
        .delete(NODE, &DeleteParams::default())
        .await
        .unwrap();
    world.at(700);
    world.until_used("a", 150, 25).await;
    running.stop().await;
    world.finish("p", 1_000).await;
    world.at(1_200);
    let running = world.start();
    world.until_released("p").await;
    world.until_statement(&[("p", 1_000, 250_000)]).await;
    until("nobody remembers cards that nobody holds", async || {
        world.ledger().inventories().await.unwrap().is_empty()
    })
    .await;
    running.stop().await;
}

#[tokio::test]
async fn a_pod_whose_cards_nobody_ever_saw_is_let_go_with_its_time_and_no_price() {
    let world = World::new().await;
    world.budget_of_a(36_000).await;
    world.running("p", WHOLE, 0).await;
    world.finish("p", 100).await;
    world
        .nodes()
        .delete(NODE, &DeleteParams::default())
        .await
        .unwrap();
    world.at(200);
    let running = world.start();
    world.until_released("p").await;
    world.until_statement(&[("p", 100, 0)]).await;
    running.stop().await;
}

#[tokio::test]
async fn cards_that_are_shown_late_are_charged_from_the_bind() {
    let world = World::new().await;
    world.budget_of_a(36_000).await;
    world.running("p", WHOLE, 0).await;
    world
        .nodes()
        .delete(NODE, &DeleteParams::default())
        .await
        .unwrap();
    world.at(700);
    let running = world.start();
    world.until_used("a", 0, 0).await;
    world.node(NODE).await;
    world.until_used("a", 600, 100).await;
    running.stop().await;
}
