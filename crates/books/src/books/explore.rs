//! Explores at random the orders in which things can happen to an extender: binds, lost answers, binds that arrive
//! after their sender has given up or has received a conflict, watches that lag, lists, pods that end, tenants that
//! edit them, nodes that come and go, restarts and changes of the leader.
//!
//! The [books](super::Books) are the real ones. What surrounds them in the product (tasks, the client, the API
//! server, the scheduler, users) is modelled here in plain threads, and shuttle chooses which thread takes the next
//! step. After every step the books are compared with the truth:
//!
//! * no card is ever given to more pods than it has room for;
//! * no pod is booked where pods, and containers without pods that the agent has reported, leave too little room;
//! * a pod that is bound and has not ended is in the books of the extender that may bind;
//! * so are containers that run although their pod is gone, from when their node's agent has reported them until it
//!   reports that they have ended;
//! * in the end, when every pod is gone, nothing is booked or remembered.
//!
//! So that this proves something, [mistakes are planted](planted), and each must be found.

mod api;
mod cluster;
mod instance;
mod planted;
mod tests;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, Runner};

use cluster::{Lag, Network, Plan, Succession};

/// How many orders are explored for each plan and scheduler. They are the same in every run, so that only a
/// change of the code changes the result. `GPUSHARE_SOAK_ORDERS` explores that many random ones instead.
const ORDERS: usize = 300;
const SEED: u64 = 7;

const BUSY: Plan = Plan {
    nodes: 2,
    pods: 3,
    succession: Succession::None,
    nodes_change: false,
    tenants_edit: false,
    by_force: false,
    life: 100,
    lag: Lag::None,
    network: Network::CALM,
    fault: None,
};

/// An extender that begins to lead has seen nothing since it started or last led.
const LEADS_UNPREPARED: Plan = Plan {
    succession: Succession::Election,
    lag: Lag::UntilItLeads,
    ..BUSY
};

/// The extender sees tenants' edits while it binds their pods.
const SEES_EDITS_IN_BINDS: Plan = Plan {
    tenants_edit: true,
    lag: Lag::UntilItBinds,
    ..BUSY
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

#[test]
fn books_survive_a_leader_that_has_seen_nothing_before() {
    holds(LEADS_UNPREPARED);
}

#[test]
fn books_survive_edits_that_are_seen_during_binds() {
    holds(SEES_EDITS_IN_BINDS);
}
