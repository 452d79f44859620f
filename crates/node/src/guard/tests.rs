use gpushare_core::gpu;

use super::*;
use crate::testing::{PodMaker, card};

const GIB: u64 = 1024;

fn pod(uid: &str, gib: u64) -> Bound {
    PodMaker::new(uid).app(gib).on("GPU-0").bound()
}

fn admit(tally: &mut Tally, bound: &Bound, cards: &[Card]) -> Result<(), GuardRefusal> {
    tally.admit(bound, &gpu::classes(), cards)
}

#[test]
fn pods_are_let_on_until_the_card_is_full() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 5), &cards).unwrap();
    let refusal = admit(&mut tally, &pod("b", 4), &cards).unwrap_err();
    let message = refusal.to_string();
    assert!(
        message.contains("has 3072 MiB of memory free and the allocation record takes 4096"),
        "{message}"
    );
    admit(&mut tally, &pod("c", 3), &cards).unwrap();
}

#[test]
fn a_refused_pod_holds_nothing() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 9), &cards).unwrap_err();
    admit(&mut tally, &pod("b", 8), &cards).unwrap();
}

#[test]
fn a_pod_that_starts_again_is_counted_once() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    for _ in 0..3 {
        admit(&mut tally, &pod("a", 8), &cards).unwrap();
    }
}

#[test]
fn a_pod_that_ended_holds_nothing_and_one_that_is_gone_is_forgotten() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB)];
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 8), &cards).unwrap();
    tally.end(&"a".into());
    admit(&mut tally, &pod("b", 8), &cards).unwrap();
    tally.forget(&"b".into());
    admit(&mut tally, &pod("c", 8), &cards).unwrap();
    let elsewhere = PodMaker::new("b").app(8).on("GPU-1").bound();
    admit(&mut tally, &elsewhere, &cards).unwrap();
}

#[test]
fn a_changed_record_is_refused_even_after_the_pod_ended() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB)];
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 4), &cards).unwrap();
    let moved = PodMaker::new("a").app(4).on("GPU-1").bound();
    assert_eq!(
        admit(&mut tally, &moved, &cards),
        Err(GuardRefusal::Changed)
    );
    tally.end(&"a".into());
    assert_eq!(
        admit(&mut tally, &moved, &cards),
        Err(GuardRefusal::Changed)
    );
}

#[test]
fn a_card_that_is_not_here_is_refused_even_for_a_pod_let_on_before() {
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 4), &[card(0, 8 * GIB)]).unwrap();
    for uid in ["a", "b"] {
        let refusal = admit(&mut tally, &pod(uid, 4), &[card(1, 8 * GIB)]).unwrap_err();
        assert_eq!(refusal, GuardRefusal::NoSuchCard("GPU-0".into()));
    }
}

#[test]
fn a_sick_card_takes_no_new_pods_but_those_on_it_may_start_again() {
    let mut cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    admit(&mut tally, &pod("a", 4), &cards).unwrap();
    cards[0].healthy = false;
    admit(&mut tally, &pod("a", 4), &cards).unwrap();
    let refusal = admit(&mut tally, &pod("b", 4), &cards).unwrap_err();
    assert!(matches!(refusal, GuardRefusal::Sick { .. }), "{refusal}");
}

#[test]
fn an_init_container_counts_only_while_it_needs_more_than_the_apps() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    let bound = PodMaker::new("a").init(6).app(5).on("GPU-0").bound();
    admit(&mut tally, &bound, &cards).unwrap();
    assert_eq!(tally.used(&cards[0]).get(gpu::MEMORY), 6 * GIB);
}
