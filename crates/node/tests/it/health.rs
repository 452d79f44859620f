//! Cards that become sick, fall off the bus, are added or removed.

use gpushare_fake_nvml::hardware::Card;
use gpushare_testkit::{assert_contains, until};

use crate::support::{ALIYUN, SLOTS, World};

const FALLEN_OFF_THE_BUS: u64 = 79;
const PAGE_FAULT: u64 = 31;

async fn until_unhealthy(world: &World, slots: usize) {
    let what = format!("{slots} slots to be unhealthy");
    until(&what, async || {
        let unhealthy = world.kubelet.unhealthy(SLOTS);
        (unhealthy == slots).then_some(()).ok_or(unhealthy)
    })
    .await;
}

/// Raises an Xid, repeatedly until one is seen: the agent reopens the driver from time to time,
/// and an event in between is lost.
async fn xid(world: &World, card: usize, number: u64, unhealthy: usize) {
    let card = world.card(card);
    until("the error to be seen", async || {
        world.change_hardware(|hardware| {
            hardware.push_xid(&card, number);
        });
        let seen = world.kubelet.unhealthy(SLOTS);
        (seen == unhealthy).then_some(()).ok_or(seen)
    })
    .await;
}

/// Which cards the agent considers healthy.
fn healthy(world: &World) -> Vec<bool> {
    let cards = world.agent().cards.borrow().known().cloned().unwrap();
    cards.iter().map(|card| card.healthy).collect()
}

#[tokio::test]
async fn a_sick_card_takes_no_new_pods_and_those_on_it_may_start_again() {
    let world = World::with_cards(&[8, 8]).await;
    world.run("old", 2, 0).await;

    xid(&world, 0, FALLEN_OFF_THE_BUS, 10).await;
    assert_eq!(healthy(&world), [false, true]);

    world.start("old").await;
    world.place("new", 2, 0).await;
    assert_contains(&world.refusal("new").await, "unhealthy");
    world.run("other", 2, 1).await;
    world.end().await;
}

#[tokio::test]
async fn an_error_of_an_application_leaves_the_card_healthy() {
    let world = World::with_cards(&[8, 8]).await;
    let card = world.card(0);
    world.change_hardware(|hardware| {
        hardware.push_xid(&card, PAGE_FAULT);
    });
    // Once the error of the other card is seen, that of the first one was seen before it.
    xid(&world, 1, FALLEN_OFF_THE_BUS, 10).await;
    assert_eq!(healthy(&world), [true, false]);
    world.end().await;
}

#[tokio::test]
async fn a_lost_card_is_unhealthy_until_it_answers_again() {
    let world = World::with_cards(&[8, 8]).await;
    let card = world.card(1);
    let set_lost = |lost: bool| {
        world.change_hardware(|hardware| hardware.card_mut(&card).unwrap().lost = lost);
    };
    set_lost(true);
    until_unhealthy(&world, 10).await;
    set_lost(false);
    until_unhealthy(&world, 0).await;
    world.end().await;
}

#[tokio::test]
async fn cards_that_are_added_and_taken_out_are_noticed() {
    let world = World::with_cards(&[8]).await;
    world.change_hardware(|hardware| hardware.cards.push(Card::new(0, 1, "NVIDIA A10", 4096)));
    until("the new card", async || world.kubelet.healthy(ALIYUN) == 12).await;
    world.change_hardware(|hardware| {
        hardware.cards.remove(0);
    });
    until("the old card to go", async || {
        world.kubelet.healthy(ALIYUN) == 4 && world.kubelet.unhealthy(ALIYUN) == 0
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn a_missing_driver_is_said_and_tried_again() {
    let mut library = None;
    let world = World::with(&[8], |config| {
        let installed = config.driver.library.clone();
        config.driver.library = installed.with_file_name("libnvidia-ml.so.2");
        library = Some((installed, config.driver.library.clone()));
    });
    until("the driver to be tried", async || {
        *world.agent().cards.borrow() == gpushare_node::cards::Cards::Unreadable
    })
    .await;
    let (status, body) = world.page("/readyz").await;
    assert_eq!(status, 503);
    assert_contains(&body, "cards have not been read");
    let (from, to) = library.unwrap();
    std::fs::copy(from, to).unwrap();
    world.registered().await;
    world.end().await;
}
