//! Every order in which things can happen to an extender, explored at random: binds, lost answers, binds that arrive
//! when everybody has given them up, watches that lag, lists, pods that end, tenants that edit them, nodes that come
//! and go, restarts and changes of the leader.
//!
//! The [state](super::State) is the real one. What surrounds it in the product (tasks, the client, the
//! API server, the scheduler, users) is modelled here in plain threads, between whose steps shuttle
//! chooses. After every step the books are held against the truth:
//!
//! * no card is ever given to more pods than it has room for;
//! * a pod that is bound and has not ended is in the books of the extender that may bind;
//! * so are containers that run although their pod is gone, from when their node's agent has told so until it tells
//!   that they have ended;
//! * in the end, when every pod is gone, nothing is booked or remembered.
//!
//! So that this proves something, [`Fault`] plants mistakes, and each must be found.

mod api;
mod cluster;
mod instance;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

use cluster::{Network, Plan, Succession};
use instance::Fault;

/// Orders for each plan and way of choosing them: always the same ones, so that a change is judged by what
/// it changes. `GPUSHARE_SOAK_ORDERS` explores as many others.
const ORDERS: usize = 300;
const SEED: u64 = 7;
/// A mistake that is not found in so many orders counts as one that cannot be found.
const ORDERS_FOR_A_FAULT: usize = 20_000;

const BUSY: Plan = Plan {
    nodes: 2,
    pods: 3,
    succession: Succession::None,
    nodes_change: false,
    tenants_edit: false,
    by_force: false,
    life: 100,
    network: Network::CALM,
    fault: None,
};

fn explore(plan: Plan, scheduler: impl Scheduler + 'static, persist: FailurePersistence) {
    let mut config = Config::new();
    config.failure_persistence = persist;
    let orders = Arc::new(AtomicUsize::new(0));
    let count = orders.clone();
    let run = || {
        Runner::new(scheduler, config).run(move || {
            count.fetch_add(1, Ordering::Relaxed);
            cluster::live(plan);
        })
    };
    let ended = catch_unwind(AssertUnwindSafe(run));
    println!("{} orders explored", orders.load(Ordering::Relaxed));
    if let Err(failure) = ended {
        resume_unwind(failure);
    }
}

fn holds(plan: Plan) {
    let (random, pct) = match std::env::var("GPUSHARE_SOAK_ORDERS") {
        Ok(text) => {
            let orders = text.parse().unwrap();
            (RandomScheduler::new(orders), PctScheduler::new(3, orders))
        }
        Err(_) => (
            RandomScheduler::new_from_seed(SEED, ORDERS),
            PctScheduler::new_from_seed(SEED, 3, ORDERS),
        ),
    };
    explore(plan, random, FailurePersistence::Print);
    explore(plan, pct, FailurePersistence::Print);
}

#[test]
fn books_agree_with_the_api_server_whatever_the_order() {
    holds(BUSY);
}

#[test]
fn books_agree_with_the_api_server_on_a_bad_network() {
    holds(Plan {
        network: Network::ROUGH,
        ..BUSY
    });
}

#[test]
fn books_survive_nodes_that_come_and_go() {
    holds(Plan {
        nodes_change: true,
        ..BUSY
    });
}

#[test]
fn books_survive_what_tenants_annotate() {
    holds(Plan {
        tenants_edit: true,
        ..BUSY
    });
}

#[test]
fn books_survive_what_tenants_annotate_and_a_crash() {
    holds(Plan {
        tenants_edit: true,
        succession: Succession::Crash,
        ..BUSY
    });
}

#[test]
fn books_hold_what_containers_hold_that_outlive_their_pods() {
    for succession in [Succession::None, Succession::Election] {
        holds(Plan {
            by_force: true,
            succession,
            ..BUSY
        });
    }
}

#[test]
fn books_survive_a_crash() {
    holds(Plan {
        succession: Succession::Crash,
        ..BUSY
    });
}

#[test]
fn books_survive_changes_of_the_leader() {
    holds(Plan {
        succession: Succession::Election,
        ..BUSY
    });
}

#[test]
fn books_survive_changes_of_the_leader_on_a_bad_network() {
    holds(Plan {
        succession: Succession::Election,
        network: Network::ROUGH,
        ..BUSY
    });
}

/// Whether exploration notices that the extender makes this mistake.
fn finds(fault: Fault) {
    let succession = match fault {
        Fault::OpensWithoutFences => Succession::Crash,
        Fault::OpensWithoutList | Fault::BindsWhenDeposed => Succession::Election,
        _ => Succession::None,
    };
    // These show only if much goes wrong at once, or in little room.
    let rough = fault == Fault::ConfirmsByRead;
    let narrow = rough || fault == Fault::ReadsInsteadOfFencing;
    let plan = Plan {
        nodes: if narrow { 1 } else { BUSY.nodes },
        pods: if narrow { 2 } else { BUSY.pods },
        succession,
        tenants_edit: [Fault::ReadsChoicesOfBound, Fault::FreesOnInvalid].contains(&fault),
        by_force: [Fault::IgnoresHeld, Fault::FreesHeldWithPod].contains(&fault),
        life: if rough { 400 } else { BUSY.life },
        network: if rough { Network::ROUGH } else { Network::CALM },
        fault: Some(fault),
        ..BUSY
    };
    let scheduler = RandomScheduler::new_from_seed(SEED, ORDERS_FOR_A_FAULT);
    let found = catch_unwind(AssertUnwindSafe(|| {
        explore(plan, scheduler, FailurePersistence::None);
    }));
    let found = found.expect_err("no order was found in which the mistake shows");
    let complaint = found.downcast_ref::<String>().map_or("", String::as_str);
    assert!(complaint.contains("BROKEN: "), "{complaint}");
}

#[test]
fn it_is_found_if_an_unknown_outcome_counts_as_a_failure() {
    finds(Fault::FreesOnUnknown);
}

#[test]
fn it_is_found_if_room_is_freed_when_deletion_begins() {
    finds(Fault::FreesOnDeletion);
}

#[test]
fn it_is_found_if_binds_open_before_those_of_the_last_term_are_void() {
    finds(Fault::OpensWithoutFences);
}

#[test]
fn it_is_found_if_binds_open_without_a_new_list() {
    finds(Fault::OpensWithoutList);
}

#[test]
fn it_is_found_if_nothing_is_booked_before_the_bind() {
    finds(Fault::BooksAfterBind);
}

#[test]
fn it_is_found_if_a_bind_takes_effect_whatever_was_written_since() {
    finds(Fault::BindsAnyVersion);
}

#[test]
fn it_is_found_if_a_doubt_is_cleared_without_a_write() {
    finds(Fault::ReadsInsteadOfFencing);
}

#[test]
fn it_is_found_if_a_stale_read_is_believed() {
    finds(Fault::TrustsStaleReads);
}

#[test]
fn it_is_found_if_a_read_counts_as_seen_by_the_watch() {
    finds(Fault::ConfirmsByRead);
}

#[test]
fn it_is_found_if_what_a_list_cannot_know_is_not_read() {
    finds(Fault::SkipsReads);
}

#[test]
fn it_is_found_if_a_list_ends_bookings_that_it_cannot_know() {
    finds(Fault::ListEndsUnconfirmed);
}

#[test]
fn it_is_found_if_a_deposed_leader_binds() {
    finds(Fault::BindsWhenDeposed);
}

#[test]
fn it_is_found_if_choices_of_a_bound_pod_are_read() {
    finds(Fault::ReadsChoicesOfBound);
}

#[test]
fn it_is_found_if_a_pod_that_becomes_invalid_loses_its_bind_under_way() {
    finds(Fault::FreesOnInvalid);
}

#[test]
fn it_is_found_if_nobody_hears_of_containers_that_outlive_their_pods() {
    finds(Fault::IgnoresHeld);
}

#[test]
fn it_is_found_if_what_containers_hold_is_freed_with_the_object_of_their_pod() {
    finds(Fault::FreesHeldWithPod);
}
