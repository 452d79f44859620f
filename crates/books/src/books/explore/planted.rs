//! Mistakes that are planted to check that exploration finds them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use shuttle::FailurePersistence;
use shuttle::scheduler::RandomScheduler;

use super::cluster::{Network, Plan, Succession};
use super::instance::Fault;
use super::{BUSY, LEADS_UNPREPARED, SEED, SEES_EDITS_IN_BINDS, explore};

/// A mistake that is not found in this many orders counts as not found.
const ORDERS_FOR_A_FAULT: usize = 20_000;

/// Asserts that exploration notices this mistake of the extender.
fn finds(fault: Fault) {
    // Some mistakes show only if much goes wrong at once, or with few nodes and pods.
    let narrow = Plan {
        nodes: 1,
        pods: 2,
        ..BUSY
    };
    let plan = match fault {
        Fault::OpensWithoutFences => Plan {
            succession: Succession::Crash,
            ..BUSY
        },
        Fault::OpensWithoutList => LEADS_UNPREPARED,
        Fault::BindsWhenDeposed => Plan {
            succession: Succession::Election,
            ..BUSY
        },
        Fault::ReadsInsteadOfFencing => narrow,
        Fault::ConfirmsByRead => Plan {
            life: 400,
            network: Network::ROUGH,
            ..narrow
        },
        Fault::ReadsChoicesOfBound => Plan {
            tenants_edit: true,
            ..BUSY
        },
        Fault::FreesOnInvalid => SEES_EDITS_IN_BINDS,
        Fault::IgnoresHeld | Fault::HeldTakesNoRoom | Fault::FreesHeldWithPod => Plan {
            by_force: true,
            ..BUSY
        },
        _ => BUSY,
    };
    let plan = Plan {
        fault: Some(fault),
        ..plan
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
fn it_is_found_if_an_unanswered_fence_counts_as_written() {
    finds(Fault::BelievesUnansweredFences);
}

#[test]
fn it_is_found_if_every_conflict_is_believed() {
    finds(Fault::BelievesConflicts);
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
fn it_is_found_if_containers_that_outlive_their_pods_take_no_room() {
    finds(Fault::HeldTakesNoRoom);
}

#[test]
fn it_is_found_if_what_containers_hold_is_freed_with_the_object_of_their_pod() {
    finds(Fault::FreesHeldWithPod);
}
