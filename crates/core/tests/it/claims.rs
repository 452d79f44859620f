//! Claims: room kept for one pod while others still hold it.

use std::collections::BTreeMap;

use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{Ledger, NodeView};
use gpushare_core::room::CardRoom;
use gpushare_core::{CardId, Placement, PodUid};
use proptest::prelude::*;

use crate::common::{Books, ask, card, ledger, node, pod};

fn on(index: u32, memory: u64) -> Placement {
    Placement::on_one_card(&ask(memory), &CardId::new(format!("GPU-{index}")))
}

/// One card of 8, of which pod 1 holds 6. Pod 9 claims all of it for the time after pod 1 has
/// ended.
fn claimed() -> Ledger {
    let mut ledger = ledger(&[("n", &[8])]);
    ledger.book(1, "n", 6);
    ledger.claim(&pod(9), &node("n"), &ask(8), on(0, 8));
    ledger
}

#[test]
fn claimed_room_is_its_pods_once_the_others_have_gone_and_nobody_elses() {
    let mut ledger = claimed();
    assert!(ledger.fits(9, "n", 8).is_err(), "pod 1 is still there");
    assert!(ledger.fits(2, "n", 1).is_err(), "the rest is claimed too");
    assert_eq!(ledger.used("n"), [6], "a claim uses nothing");
    ledger.release(&pod(1));
    assert!(ledger.fits(2, "n", 1).is_err());
    assert!(ledger.reserve_for(2, "n", 1).is_err());
    assert_eq!(ledger.fits(9, "n", 8), Ok(()));
    assert_eq!(ledger.reserve_for(9, "n", 8), Ok(on(0, 8)));
    assert_eq!(ledger.used("n"), [8]);
}

#[test]
fn the_claimed_cards_are_taken_even_if_others_are_tighter() {
    let mut ledger = ledger(&[("n", &[8, 6])]);
    ledger.claim(&pod(9), &node("n"), &ask(4), on(0, 4));
    assert_eq!(ledger.reserve_for(9, "n", 4), Ok(on(0, 4)));
}

#[test]
fn a_bind_that_fails_leaves_the_claim() {
    let mut ledger = claimed();
    ledger.release(&pod(1));
    ledger.book(9, "n", 8);
    ledger.release(&pod(9));
    assert!(ledger.fits(2, "n", 1).is_err());
    assert!(ledger.unclaim(&pod(9)));
    assert_eq!(ledger.fits(2, "n", 8), Ok(()));
}

#[test]
fn a_claim_counts_on_while_its_pod_is_being_bound_elsewhere() {
    let mut ledger = ledger(&[("m", &[8]), ("n", &[8])]);
    ledger.claim(&pod(9), &node("n"), &ask(8), on(0, 8));
    ledger.book(9, "m", 8);
    assert!(ledger.fits(2, "n", 1).is_err());
}

#[test]
fn a_claim_survives_its_node_being_published_anew_or_lost() {
    let mut ledger = claimed();
    ledger.release(&pod(1));
    ledger.set_node(&node("n"), vec![card(0, 8)]);
    assert!(ledger.fits(2, "n", 1).is_err());
    ledger.remove_node("n");
    ledger.set_node(&node("n"), vec![card(0, 8)]);
    assert!(ledger.fits(2, "n", 1).is_err());
    ledger.remove_node("n");
    ledger.unclaim(&pod(9));
    assert_eq!(ledger.nodes().count(), 0);
}

#[test]
fn a_whole_card_can_be_claimed_and_a_second_claim_replaces_the_first() {
    let mut ledger = ledger(&[("n", &[8, 8])]);
    ledger.claim(&pod(9), &node("n"), &ask(4), on(0, 4));
    ledger.claim(&pod(9), &node("n"), &ask(4), on(1, 4));
    ledger.book(1, "n", 8);
    assert_eq!(ledger.used("n"), [8, 0], "the first card is free again");
}

#[derive(Clone, Debug)]
enum Step {
    Claim(usize, u32, u64),
    Unclaim(usize),
    Reserve(usize, u64),
    Confirm(usize),
    Release(usize),
    Publish,
}

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..5_usize;
    prop_oneof![
        (pod.clone(), 0..2_u32, 1..9_u64)
            .prop_map(|(pod, card, size)| Step::Claim(pod, card, size)),
        pod.clone().prop_map(Step::Unclaim),
        (pod.clone(), 1..9_u64).prop_map(|(pod, size)| Step::Reserve(pod, size)),
        pod.clone().prop_map(Step::Confirm),
        pod.prop_map(Step::Release),
        Just(Step::Publish),
    ]
}

/// The rooms, computed again from the bookings and claims alone.
fn recounted(ledger: &Ledger) -> Vec<CardRoom> {
    let mut fresh = Ledger::new(gpu::classes());
    fresh.set_node(&node("n"), vec![card(0, 8), card(1, 8)]);
    let mut rooms = fresh.node("n").expect("published").rooms().to_vec();
    for (_, booking) in ledger.bookings() {
        for room in &mut rooms {
            if let Some(hold) = booking.charges().get(&room.card.id) {
                room.take(hold);
            }
        }
    }
    for (pod, claim) in ledger.claims() {
        let size = claim.placement.cards().first().map(|id| (*id).clone());
        let booked = ledger.booking(pod.as_str()).is_some();
        for room in &mut rooms {
            if !booked && Some(&room.card.id) == size.as_ref() {
                let share = &claim.placement.containers[0].shares[0];
                room.claim(&share.hold);
            }
        }
    }
    rooms
}

proptest! {
    #[test]
    fn rooms_are_what_bookings_and_claims_add_up_to(steps in prop::collection::vec(step(), 0..60)) {
        let mut ledger = ledger(&[("n", &[8, 8])]);
        let mut asked: BTreeMap<PodUid, u64> = BTreeMap::new();
        for step in &steps {
            let read = ledger.bookmark();
            let before = format!("{:?}", ledger.node("n").map(NodeView::rooms));
            match step {
                Step::Claim(number, index, size) => {
                    ledger.claim(&pod(*number), &node("n"), &ask(*size), on(*index, *size));
                }
                Step::Unclaim(number) => drop(ledger.unclaim(&pod(*number))),
                Step::Reserve(number, size) => {
                    let claim = ledger.claimed(pod(*number).as_str());
                    let size = claim.map_or(*size, |claim| {
                        let share = &claim.placement.containers[0].shares[0];
                        share.hold.on(&card(0, 8).capacity).get(MEMORY)
                    });
                    if ledger.booking(pod(*number).as_str()).is_none()
                        && ledger.reserve_for(*number, "n", size).is_ok()
                    {
                        asked.insert(pod(*number), size);
                    }
                }
                Step::Confirm(number) => {
                    if ledger.booking(pod(*number).as_str()).is_some() {
                        ledger.confirm(ledger.seen(*number, asked[&pod(*number)]));
                    }
                }
                Step::Release(number) => drop(ledger.release(&pod(*number))),
                Step::Publish => ledger.set_node(&node("n"), vec![card(0, 8), card(1, 8)]),
            }
            let told = ledger.changed_since(read).expect("few changes").next().is_some();
            let same = before == format!("{:?}", ledger.node("n").map(NodeView::rooms));
            prop_assert!(same || told, "a change of rooms is told");
            let found = ledger.node("n").expect("published").rooms().to_vec();
            for (found, expected) in found.iter().zip(recounted(&ledger)) {
                prop_assert_eq!(found.used(), expected.used());
                prop_assert_eq!(found.free(), expected.free());
                prop_assert!(found.used().get(MEMORY) <= 8, "reserving never goes past the card");
            }
        }
    }
}
