//! Clocks that are ahead, behind, or set back.

use crate::world::{DAY, World};

#[tokio::test]
async fn what_was_charged_past_the_end_is_given_back() {
    let (world, running) = World::charging(3_600, 1_000).await;
    world.finish("p", 450).await;
    world.until_released("p").await;
    world.until_used("a", 450, 0).await;
    world.ends_with(running, &[("p", 450, 450_000)]).await;
}

#[tokio::test]
async fn a_clock_that_is_set_back_and_forth_charges_every_second_once() {
    let (world, running) = World::charging(36_000, 1_000).await;
    for (second, used, held) in [
        (100, 900, 0),
        (1_000, 900, 100),
        (899, 900, 0),
        (1_250, 1_200, 50),
    ] {
        world.uses_at(second, used, held).await;
    }
    // The timekeeper restarts while its clock is behind.
    running.stop().await;
    let running = world.start_at(0);
    world.until_used("a", 1_200, 0).await;
    world.finish("p", 1_300).await;
    world.at(2_000);
    world.ends_with(running, &[("p", 1_300, 1_300_000)]).await;
}

#[tokio::test]
async fn an_end_that_is_ahead_of_our_clock_is_waited_for() {
    let world = World::with_an_ended_pod(36_000, 500).await;
    let running = world.start_at(400);
    world.charges_until(400).await;
    world.at(500);
    world.ends_with(running, &[("p", 500, 500_000)]).await;
}

#[tokio::test]
async fn a_clock_that_goes_back_over_midnight_opens_no_period_twice() {
    let world = World::with_budget(3_600).await;
    let running = world.start();
    for second in [0, DAY + 5, DAY - 5, DAY + 5, 2 * DAY] {
        world.at(second);
        let start = world.base + second - second % DAY;
        let shown = world.until_status("a", "the period of the clock", |status| {
            let shown = status.period_start.as_ref();
            shown.is_some_and(|shown| shown.0.as_second() == start)
        });
        assert_eq!(shown.await.remaining_seconds, Some(3_600));
    }
    world.audit().await;
    running.stop().await;
}
