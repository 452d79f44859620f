//! Checks of the model itself: a finding must be repeatable, and a wait in it must end.

use std::sync::{Arc, Mutex};

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner};

use super::api::Api;
use super::cluster::{self, Plan, Succession};
use super::{BUSY, SEED};

/// What happens in the first orders of a seed.
fn stories(plan: Plan) -> Vec<String> {
    let stories: Arc<Mutex<Vec<String>>> = Arc::default();
    let collected = stories.clone();
    let scheduler = RandomScheduler::new_from_seed(SEED, 20);
    Runner::new(scheduler, Config::new()).run(move || {
        let story = cluster::live(plan);
        collected.lock().unwrap().push(story.text());
    });
    std::mem::take(&mut stories.lock().unwrap())
}

#[test]
fn a_seed_explores_the_same_orders_in_every_run() {
    let plan = Plan {
        succession: Succession::Election,
        ..BUSY
    };
    let (first, second) = (stories(plan), stories(plan));
    for (order, (first, second)) in first.iter().zip(&second).enumerate() {
        assert!(
            first == second,
            "order {order} differs:\n{first}\n\nand\n\n{second}"
        );
    }
    assert_eq!((first.len(), second.len()), (20, 20));
}

#[test]
fn an_earlier_term_that_opens_late_does_not_close_the_present_one() {
    let run = || {
        let api = Api::new();
        api.begin_term(0, 3);
        api.open_binds(0, 3);
        api.open_binds(0, 1);
        assert!(api.truth().may_bind(0));
    };
    shuttle::check_random(run, 1);
}
