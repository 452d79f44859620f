use gpushare_core::{gpu, names};

use super::*;
use crate::testing::{PodMaker, card};

const GIB: u64 = 1024;

fn pod(uid: &str, gib: u64) -> BoundPod {
    PodMaker::new(uid).app(gib).on("GPU-0").bound()
}

fn admit(tally: &mut Tally, bound: &BoundPod, cards: &[Card]) -> Result<(), GuardRefusal> {
    tally.admit(bound, &gpu::classes(), cards)
}

/// Two cards of 8 GiB, and a tally that has admitted pod `a` to the first one with so much of it.
fn with_a(gib: u64) -> (Tally, [Card; 2]) {
    let (mut tally, cards) = (Tally::default(), [card(0, 8 * GIB), card(1, 8 * GIB)]);
    admit(&mut tally, &pod("a", gib), &cards).unwrap();
    (tally, cards)
}

#[test]
fn pods_are_let_on_until_the_card_is_full() {
    let (mut tally, cards) = with_a(5);
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
    let (mut tally, cards) = with_a(8);
    tally.end(&"a".into());
    admit(&mut tally, &pod("b", 8), &cards).unwrap();
    tally.forget(&"b".into());
    admit(&mut tally, &pod("c", 8), &cards).unwrap();
    let elsewhere = PodMaker::new("b").app(8).on("GPU-1").bound();
    admit(&mut tally, &elsewhere, &cards).unwrap();
}

#[test]
fn a_changed_record_is_refused_even_after_the_pod_ended() {
    let (mut tally, cards) = with_a(4);
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
    let (mut tally, mut cards) = with_a(4);
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

/// Asks for this many whole cards.
fn whole(uid: &str, count: u64, cards: &[&Card]) -> BoundPod {
    let maker = PodMaker::new(uid).asking("app", &[(names::GPU, count)]);
    maker.on_all(cards).bound()
}

#[test]
fn a_whole_card_is_refused_where_shares_run_and_let_on_where_none_do() {
    let (mut tally, cards) = with_a(1);
    let refusal = admit(&mut tally, &whole("whole", 1, &[&cards[0]]), &cards).unwrap_err();
    let message = refusal.to_string();
    assert!(
        message.contains("has 7168 MiB of memory free and the allocation record takes 8192"),
        "{message}"
    );
    let both = whole("both", 2, &[&cards[0], &cards[1]]);
    admit(&mut tally, &both, &cards).unwrap_err();
    admit(&mut tally, &whole("whole", 1, &[&cards[1]]), &cards).unwrap();
}

#[test]
fn a_share_of_a_card_that_somebody_has_whole_is_refused_even_where_the_use_is_limited() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    let limits = [(names::tencent::CORE, 100), (names::tencent::MEMORY, 4)];
    let limited = PodMaker::new("limited").asking("app", &limits).on("GPU-0");
    admit(&mut tally, &limited.bound(), &cards).unwrap();
    assert_eq!(tally.used(&cards[0]).get(gpu::MEMORY), 8 * GIB);
    let refusal = admit(&mut tally, &pod("share", 1), &cards).unwrap_err();
    assert!(refusal.to_string().contains("has 0 MiB"), "{refusal}");
    tally.end(&"limited".into());
    admit(&mut tally, &pod("share", 1), &cards).unwrap();
}

#[test]
fn compute_runs_out_as_memory_does() {
    let cards = [card(0, 8 * GIB)];
    let mut tally = Tally::default();
    let part = |uid: &str, percent| {
        let limits = [(names::tencent::CORE, percent), (names::tencent::MEMORY, 4)];
        PodMaker::new(uid)
            .asking("app", &limits)
            .on("GPU-0")
            .bound()
    };
    admit(&mut tally, &part("a", 60), &cards).unwrap();
    let message = admit(&mut tally, &part("b", 50), &cards)
        .unwrap_err()
        .to_string();
    assert!(message.contains("has 40 % of core free"), "{message}");
    admit(&mut tally, &part("c", 40), &cards).unwrap();
}

#[test]
fn one_full_card_of_several_refuses_the_pod_and_it_holds_nothing_of_the_others() {
    let (mut tally, cards) = with_a(6);
    let limits = [(names::GPU, 2), (names::GPU_MEM, 3 * GIB)];
    let two = PodMaker::new("b").asking("app", &limits);
    let refusal = admit(
        &mut tally,
        &two.on_all(&[&cards[1], &cards[0]]).bound(),
        &cards,
    )
    .unwrap_err();
    assert!(refusal.to_string().contains("GPU-0"), "{refusal}");
    assert!(tally.used(&cards[1]).is_zero());
}

#[test]
fn a_record_that_books_less_than_the_percent_asked_for_is_refused() {
    let (small, large) = (card(0, 8 * GIB), card(1, 16 * GIB));
    let limits = [(names::hami::GPU, 1), (names::hami::MEMORY_PERCENT, 50)];
    let asking = PodMaker::new("a").asking("app", &limits);
    let mut tally = Tally::default();
    // Half of the small card, claimed on the large one.
    let mut forged = asking.clone().on_all(&[&small]).bound();
    forged.placement.containers[0].shares[0].card = large.id.clone();
    let refusal = admit(&mut tally, &forged, std::slice::from_ref(&large)).unwrap_err();
    assert!(matches!(refusal, GuardRefusal::Less { .. }), "{refusal}");
    let good = asking.on_all(&[&large]).bound();
    admit(&mut tally, &good, std::slice::from_ref(&large)).unwrap();
    assert_eq!(tally.used(&large).get(gpu::MEMORY), 8 * GIB);
}
