//! Containers that outlive their pods keep their room for as long as the node agent reports them.

use crate::common::{Books, ask, card, ledger, node, pod};
use gpushare_core::gpu::MEMORY;
use gpushare_core::held::HeldPod;
use gpushare_core::ledger::{BookingState, BoundPod};
use gpushare_core::placement::Hold;
use gpushare_core::{Amounts, CardId, Ledger, Placement};

/// This much of the node's first card.
fn held(number: usize, amount: u64) -> HeldPod {
    let first: CardId = card(0, 8).id;
    HeldPod {
        pod: pod(number),
        name: "team/gone".into(),
        charges: [(first, Hold::Part(Amounts::of(MEMORY, amount)))]
            .into_iter()
            .collect(),
    }
}

/// The pod with this much of the node's first card, as the watch shows it.
fn bound(number: usize, amount: u64) -> BoundPod {
    let ask = ask(amount);
    BoundPod {
        pod: pod(number),
        node: node("n"),
        placement: Placement::on_one_card(&ask, &card(0, 8).id),
        ask,
    }
}

fn state(ledger: &Ledger) -> Option<BookingState> {
    ledger.booking("uid-0").map(|booking| booking.state)
}

/// A node with one card of 8, of which the agent says that containers of pod 0 hold this much.
fn held_on_one_card(amount: u64) -> Ledger {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(0, amount)]);
    ledger
}

#[test]
fn what_is_held_without_a_pod_is_not_offered_and_the_refusal_says_so() {
    let mut ledger = held_on_one_card(6);
    assert_eq!(ledger.used("n"), [6]);
    let why = ledger.fits(1, "n", 4).unwrap_err();
    assert_eq!(
        why.to_string(),
        "no card has 4 MiB of memory free, the most is 2; a part is held by containers of a pod that no longer \
         exists, until they have ended"
    );
    assert!(ledger.fits(1, "n", 2).is_ok());
    assert!(ledger.set_held(&node("n"), vec![]), "room is free again");
    assert!(ledger.fits(1, "n", 8).is_ok());
    assert!(ledger.is_empty());
}

#[test]
fn a_pod_that_is_booked_is_not_counted_twice_and_its_containers_stay_booked_after_it() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.confirm(bound(0, 6));
    assert!(!ledger.set_held(&node("n"), vec![held(0, 6)]));
    assert_eq!(ledger.used("n"), [6]);
    assert_eq!(state(&ledger), Some(BookingState::Confirmed));
    ledger.release(&pod(0));
    assert_eq!(ledger.used("n"), [6]);
    assert_eq!(state(&ledger), Some(BookingState::Outlived));
    ledger.release(&pod(0));
    assert_eq!(ledger.used("n"), [6], "the agent's word stands");
    ledger.set_held(&node("n"), vec![]);
    assert_eq!(ledger.used("n"), [0]);
}

#[test]
fn a_pod_that_the_watch_shows_after_the_agents_word_is_booked_by_its_record() {
    let mut ledger = held_on_one_card(8);
    ledger.confirm(bound(0, 6));
    assert_eq!(ledger.used("n"), [6]);
    assert_eq!(state(&ledger), Some(BookingState::Confirmed));
    ledger.set_held(&node("n"), vec![]);
    assert_eq!(ledger.used("n"), [6]);
}

#[test]
fn a_list_of_pods_and_a_new_inventory_leave_it_booked() {
    let mut ledger = held_on_one_card(6);
    assert_eq!(
        ledger.rebuild(vec![]),
        vec![],
        "there is nothing to look up"
    );
    assert_eq!(ledger.used("n"), [6]);
    ledger.set_node(&node("n"), vec![card(0, 8), card(1, 8)]);
    assert_eq!(ledger.used("n"), [6, 0]);
    let why = ledger.fits(1, "n", 9).unwrap_err();
    assert!(!why.to_string().contains("no longer"), "{why}");
}

#[test]
fn it_goes_with_its_node_and_leaves_nothing_behind() {
    let mut ledger = held_on_one_card(6);
    ledger.remove_node("n");
    assert!(ledger.is_empty());
    assert!(ledger.node("n").is_none());
    ledger.set_held(&node("n"), vec![held(0, 6)]);
    assert!(!ledger.set_held(&node("m"), vec![]));
    assert!(ledger.set_held(&node("n"), vec![]));
    assert!(ledger.node("n").is_none() && ledger.node("m").is_none());
}

#[test]
fn what_changes_in_the_agents_word_changes_in_the_books() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(0, 6), held(1, 1)]);
    assert_eq!(ledger.used("n"), [7]);
    ledger.set_held(&node("n"), vec![held(1, 2)]);
    assert_eq!(ledger.used("n"), [2]);
    let outlived = ledger.outlived("uid-1").map(|held| &*held.name);
    assert_eq!(outlived, Some("team/gone"));
    assert_eq!(ledger.outlived("uid-0"), None);
}
