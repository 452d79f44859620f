//! The ledger's behaviour, case by case.

use crate::common::{Books, asks, card, container, ledger, node, pod, share};
use gpushare_core::ledger::BookingState;
use gpushare_core::request::Role;
use gpushare_core::{Ledger, Placement, Why};

/// A node with one card of 8, of which pod 0 holds this much.
fn one_pod_with(memory: u64) -> Ledger {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.book(0, "n", memory);
    ledger
}

/// Two nodes with one card of 8 each; pod 0 holds this much of the first.
fn first_of_two_nodes(memory: u64) -> Ledger {
    let mut ledger = ledger(&[("n", &[8]), ("m", &[8])]);
    ledger.book(0, "n", memory);
    ledger
}

#[test]
fn pods_fill_the_tightest_card_first() {
    let mut ledger = ledger(&[("n", &[8, 8])]);
    ledger.book(0, "n", 3);
    ledger.book(1, "n", 3);
    assert_eq!(ledger.used("n"), [6, 0]);
    ledger.book(2, "n", 3);
    assert_eq!(ledger.used("n"), [6, 3]);
}

#[test]
fn a_refusal_says_how_much_is_needed_and_how_much_is_there() {
    let mut ledger = ledger(&[("n", &[8, 8])]);
    ledger.book(0, "n", 5);
    ledger.book(1, "n", 4);
    let why = ledger.reserve_for(2, "n", 8).unwrap_err().to_string();
    assert_eq!(why, "no card has 8 MiB of memory free, the most is 4");
    assert_eq!(ledger.used("n"), [5, 4]);
}

#[test]
fn a_sick_card_takes_no_new_pod_and_is_named() {
    let mut ledger = one_pod_with(2);
    let mut sick = card(0, 8);
    sick.healthy = false;
    ledger.set_node(&node("n"), vec![sick]);
    let why = ledger.reserve_for(1, "n", 1).unwrap_err();
    assert_eq!(why.to_string(), "the cards that have room are unhealthy");
    assert_eq!(ledger.used("n"), [2]);
}

#[test]
fn an_unknown_node_points_to_the_agent() {
    let why = ledger(&[]).fits(0, "nowhere", 1).unwrap_err().to_string();
    assert!(
        why.contains("is the gpushare node agent running there?"),
        "{why}"
    );
}

#[test]
fn a_second_bind_of_a_pod_under_way_is_refused() {
    let mut ledger = first_of_two_nodes(3);
    let again = ledger.reserve_for(0, "m", 3);
    assert_eq!(again, Err(Why::BindInProgress { node: node("n") }));
    assert_eq!(ledger.used("m"), [0]);
}

#[test]
fn a_bind_in_doubt_keeps_its_card_and_is_not_tried_again_before_that_is_cleared() {
    let mut ledger = first_of_two_nodes(5);
    ledger.doubt(&pod(0));
    let in_doubt = Why::BindInDoubt { node: node("n") };
    for anywhere in ["n", "m"] {
        assert_eq!(ledger.fits(0, anywhere, 5), Err(in_doubt.clone()));
        assert_eq!(ledger.reserve_for(0, anywhere, 5), Err(in_doubt.clone()));
    }
    assert!(
        ledger.fits(1, "n", 5).is_err(),
        "its room is not given away"
    );
    assert_eq!(ledger.used("n"), [5]);
    ledger.release(&pod(0));
    ledger.book(0, "m", 5);
    assert_eq!((ledger.used("n"), ledger.used("m")), (vec![0], vec![5]));
}

#[test]
fn a_late_answer_does_not_bring_back_a_pod_that_is_gone() {
    let mut ledger = one_pod_with(5);
    ledger.confirm(ledger.seen(0, 5));
    ledger.release(&pod(0));
    ledger.settle(&pod(0));
    ledger.doubt(&pod(0));
    assert_eq!(ledger.used("n"), [0]);
    assert!(ledger.is_empty());
}

#[test]
fn the_watch_wins_over_what_was_reserved() {
    let mut ledger = first_of_two_nodes(5);
    let mut seen = ledger.seen(0, 5);
    seen.node = node("m");
    ledger.confirm(seen);
    assert_eq!((ledger.used("n"), ledger.used("m")), (vec![0], vec![5]));
}

#[test]
fn bookings_outlive_a_node_object_that_is_recreated() {
    let mut ledger = one_pod_with(5);
    ledger.remove_node("n");
    assert!(ledger.fits(1, "n", 1).is_err());
    ledger.set_node(&node("n"), vec![card(0, 8)]);
    assert_eq!(ledger.used("n"), [5]);
}

#[test]
fn a_pod_seen_before_its_node_is_counted_once_the_node_is_known() {
    let seen = one_pod_with(5).seen(0, 5);
    let mut ledger = ledger(&[]);
    ledger.confirm(seen);
    ledger.set_node(&node("n"), vec![card(0, 8)]);
    assert_eq!(ledger.used("n"), [5]);
}

#[test]
fn a_card_that_shrank_under_its_pods_takes_no_more() {
    let mut ledger = one_pod_with(7);
    ledger.set_node(&node("n"), vec![card(0, 4)]);
    assert!(ledger.fits(1, "n", 1).is_err());
    ledger.release(&pod(0));
    assert!(ledger.fits(1, "n", 4).is_ok());
}

#[test]
fn a_relist_ends_what_is_gone_and_asks_about_what_it_could_not_know() {
    let mut ledger = ledger(&[("n", &[8])]);
    for number in 0..3 {
        ledger.book(number, "n", 2);
    }
    let (gone, kept) = (ledger.seen(0, 2), ledger.seen(1, 2));
    ledger.confirm(gone);
    ledger.confirm(kept.clone());
    ledger.settle(&pod(2));
    assert_eq!(ledger.rebuild(vec![kept]), vec![pod(2)]);
    assert_eq!(ledger.used("n"), [4]);
    let booking = ledger.booking("uid-1").expect("it is kept");
    assert_eq!(booking.state, BookingState::Confirmed);
}

#[test]
fn what_a_read_showed_outlives_a_list_that_may_be_older() {
    let mut ledger = one_pod_with(5);
    let seen = ledger.seen(0, 5);
    ledger.doubt(&pod(0));
    ledger.learn(seen.clone());
    assert_eq!(ledger.rebuild(vec![]), vec![pod(0)]);
    assert_eq!(ledger.used("n"), [5]);
    ledger.confirm(seen.clone());
    ledger.learn(seen);
    assert_eq!(ledger.rebuild(vec![]), vec![], "the watch has shown it");
    assert_eq!(ledger.used("n"), [0]);
}

#[test]
fn two_containers_of_a_pod_are_charged_together() {
    let both = asks(["c", "d"].map(|name| container(name, Role::App, 1, share(3))));
    let mut ledger = ledger(&[("n", &[5, 6])]);
    let placement: Placement = ledger.reserve(&pod(0), &node("n"), &both).unwrap();
    assert_eq!(placement.containers.len(), 2);
    assert_eq!(ledger.used("n"), [0, 6]);
}
