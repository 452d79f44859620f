//! Containers that outlive their pods keep their room for as long as the node agent reports them.

use crate::common::{ask, card, fit, ledger, node, pod, used};
use gpushare_core::gpu::MEMORY;
use gpushare_core::held::HeldPod;
use gpushare_core::ledger::{BookingState, Bound};
use gpushare_core::placement::Hold;
use gpushare_core::{Amounts, CardId, Ledger, Placement, PodUid};

/// This much of the node's first card.
fn held(pod: &PodUid, amount: u64) -> HeldPod {
    let first: CardId = card(0, 8).id;
    HeldPod {
        pod: pod.clone(),
        name: "team/gone".into(),
        charges: [(first, Hold::Part(Amounts::of(MEMORY, amount)))]
            .into_iter()
            .collect(),
    }
}

/// The pod with this much of the node's first card, as the watch shows it.
fn bound(pod: &PodUid, amount: u64) -> Bound {
    let ask = ask(amount);
    Bound {
        pod: pod.clone(),
        node: node("n"),
        placement: Placement::on_one_card(&ask, &card(0, 8).id),
        ask,
    }
}

fn state(ledger: &Ledger, pod: &PodUid) -> Option<BookingState> {
    ledger.booking(pod.as_str()).map(|booking| booking.state)
}

#[test]
fn what_is_held_without_a_pod_is_not_offered_and_the_refusal_says_so() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(&pod(0), 6)]);
    assert_eq!(used(&ledger, "n"), [6]);
    let why = fit(&ledger, "n", &pod(1), &ask(4)).unwrap_err();
    assert_eq!(
        why.to_string(),
        "no card has 4 MiB of memory free, the most is 2; a part is held by containers of a pod that no longer \
         exists, until they have ended"
    );
    assert!(fit(&ledger, "n", &pod(1), &ask(2)).is_ok());
    assert!(ledger.set_held(&node("n"), vec![]), "room is free again");
    assert!(fit(&ledger, "n", &pod(1), &ask(8)).is_ok());
    assert!(ledger.is_empty());
}

#[test]
fn a_pod_that_is_booked_is_not_counted_twice_and_its_containers_stay_booked_after_it() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.confirm(bound(&pod(0), 6));
    assert!(!ledger.set_held(&node("n"), vec![held(&pod(0), 6)]));
    assert_eq!(used(&ledger, "n"), [6]);
    assert_eq!(state(&ledger, &pod(0)), Some(BookingState::Confirmed));
    ledger.release(&pod(0));
    assert_eq!(used(&ledger, "n"), [6]);
    assert_eq!(state(&ledger, &pod(0)), Some(BookingState::Outlived));
    ledger.release(&pod(0));
    assert_eq!(used(&ledger, "n"), [6], "the agent's word stands");
    ledger.set_held(&node("n"), vec![]);
    assert_eq!(used(&ledger, "n"), [0]);
}

#[test]
fn a_pod_that_the_watch_shows_after_the_agents_word_is_booked_by_its_record() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(&pod(0), 8)]);
    ledger.confirm(bound(&pod(0), 6));
    assert_eq!(used(&ledger, "n"), [6]);
    assert_eq!(state(&ledger, &pod(0)), Some(BookingState::Confirmed));
    ledger.set_held(&node("n"), vec![]);
    assert_eq!(used(&ledger, "n"), [6]);
}

#[test]
fn a_list_of_pods_and_a_new_inventory_leave_it_booked() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(&pod(0), 6)]);
    assert!(
        ledger.rebuild(vec![]).is_empty(),
        "there is nothing to look up"
    );
    assert_eq!(used(&ledger, "n"), [6]);
    ledger.set_node(&node("n"), vec![card(0, 8), card(1, 8)]);
    assert_eq!(used(&ledger, "n"), [6, 0]);
    let why = fit(&ledger, "n", &pod(1), &ask(9)).unwrap_err();
    assert!(!why.to_string().contains("no longer"), "{why}");
}

#[test]
fn it_goes_with_its_node_and_leaves_nothing_behind() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(&pod(0), 6)]);
    ledger.remove_node("n");
    assert!(ledger.is_empty());
    assert!(ledger.node("n").is_none());
    ledger.set_held(&node("n"), vec![held(&pod(0), 6)]);
    assert!(!ledger.set_held(&node("m"), vec![]));
    assert!(ledger.set_held(&node("n"), vec![]));
    assert!(ledger.node("n").is_none() && ledger.node("m").is_none());
}

#[test]
fn what_changes_in_the_agents_word_changes_in_the_books() {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.set_held(&node("n"), vec![held(&pod(0), 6), held(&pod(1), 1)]);
    assert_eq!(used(&ledger, "n"), [7]);
    ledger.set_held(&node("n"), vec![held(&pod(1), 2)]);
    assert_eq!(used(&ledger, "n"), [2]);
    assert_eq!(
        ledger
            .outlived(pod(1).as_str())
            .map(|held| held.name.as_ref()),
        Some("team/gone")
    );
    assert_eq!(ledger.outlived(pod(0).as_str()), None);
}
