//! The judges must find planted mistakes, and pass a history without any.

use super::*;

fn card() -> CardId {
    CardId::new("GPU-1")
}

fn sizes() -> BTreeMap<CardId, u64> {
    BTreeMap::from([(card(), 16)])
}

fn share(mib: u64) -> Shares {
    Shares::from([(card(), mib)])
}

fn holds(pod: &str, mib: u64) -> Observation {
    Observation::Holds {
        pod: PodUid::new(pod),
        name: format!("team/{pod}"),
        shares: share(mib),
    }
}

fn free(pod: &str) -> Observation {
    Observation::Free {
        pod: PodUid::new(pod),
    }
}

#[test]
fn a_history_in_which_the_next_pod_comes_after_the_last_one_ended_is_right() {
    let history = [holds("a", 10), holds("b", 6), free("a"), holds("c", 10)];
    assert_eq!(overbooked(&history, &sizes()), [""; 0]);
}

#[test]
fn a_card_that_was_overbooked_for_one_event_is_found() {
    let history = [holds("a", 10), holds("b", 10), free("a")];
    assert_eq!(
        overbooked(&history, &sizes()),
        ["the watch history shows 20 MiB recorded on card GPU-1 of 16: team/a 10, team/b 10"]
    );
}

#[test]
fn a_record_that_changes_is_found() {
    let history = [holds("a", 10), holds("a", 2)];
    let found = overbooked(&history, &sizes());
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("the record of team/a (a) changed"),
        "{found:?}"
    );
}

fn glimpse(at: i64, running: &[(&str, u64)]) -> Glimpse {
    let running = running.iter().map(|(pod, mib)| RunningContainer {
        pod: PodUid::new(*pod),
        container: format!("container-of-{pod}"),
        shares: share(*mib),
    });
    Glimpse {
        at,
        running: running.collect(),
    }
}

#[test]
fn containers_that_ran_together_on_too_small_a_card_are_found() {
    let glimpses = [
        glimpse(0, &[("a", 10)]),
        glimpse(100, &[("a", 10), ("b", 10)]),
        glimpse(200, &[("a", 10), ("b", 10)]),
        glimpse(300, &[("b", 10)]),
    ];
    assert_eq!(
        crowded(&glimpses, &sizes()),
        ["containers with 20 MiB ran together on card GPU-1 of 16: a 10, b 10 (first at 100 ms)"]
    );
}

#[test]
fn a_container_that_starts_while_the_one_before_it_is_looked_at_is_not_beside_it() {
    let glimpses = [
        glimpse(0, &[("a", 10)]),
        glimpse(100, &[("a", 10), ("b", 10)]),
        glimpse(200, &[("b", 10)]),
    ];
    assert_eq!(crowded(&glimpses, &sizes()), [""; 0]);
}

#[test]
fn a_container_that_one_look_shows_beside_one_that_lasts_ran_beside_it() {
    let glimpses = [
        glimpse(0, &[("a", 10)]),
        glimpse(100, &[("a", 10), ("b", 10)]),
        glimpse(200, &[("a", 10)]),
    ];
    assert_eq!(
        crowded(&glimpses, &sizes()),
        ["containers with 20 MiB ran together on card GPU-1 of 16: a 10, b 10 (first at 100 ms)"]
    );
}

#[test]
fn two_containers_that_one_look_shows_need_not_have_run_together() {
    let glimpses = [
        glimpse(0, &[("a", 4)]),
        glimpse(100, &[("a", 4), ("b", 10), ("c", 10)]),
        glimpse(200, &[("a", 4)]),
    ];
    assert_eq!(crowded(&glimpses, &sizes()), [""; 0]);
}

fn agreed() -> CalmSnapshot {
    let held = BTreeMap::from([("team/a".to_owned(), share(10))]);
    let names = BTreeSet::from(["team/a".to_owned()]);
    CalmSnapshot {
        books: held.clone(),
        records: held.clone(),
        running: held,
        files: names.clone(),
        objects: names,
        ..CalmSnapshot::default()
    }
}

#[test]
fn a_calm_in_which_all_say_the_same_is_right() {
    assert_eq!(disagreements(&agreed()), [""; 0]);
}

#[test]
fn a_leaked_booking_is_found() {
    let mut calm = agreed();
    calm.books.insert("team/gone".to_owned(), share(4));
    assert_eq!(
        disagreements(&calm),
        ["team/gone: the books say {\"GPU-1\": 4}, its record {}"]
    );
    assert_eq!(
        leaks(&CalmSnapshot {
            books: calm.books,
            ..CalmSnapshot::default()
        })
        .len(),
        2
    );
}

#[test]
fn a_lost_booking_is_found() {
    let mut calm = agreed();
    calm.books.clear();
    assert_eq!(
        disagreements(&calm),
        ["team/a: the books say {}, its record {\"GPU-1\": 10}"]
    );
}

#[test]
fn a_container_without_a_record_or_a_file_is_found() {
    let mut calm = agreed();
    calm.books.clear();
    calm.records.clear();
    calm.files.clear();
    assert_eq!(
        disagreements(&calm),
        [
            "team/a: its record says {}, what runs has {\"GPU-1\": 10}",
            "team/a runs on a card and has no CDI file"
        ]
    );
}

#[test]
fn a_pod_that_cannot_run_keeps_its_booking_and_runs_on_nothing_else() {
    let mut calm = agreed();
    calm.unstartable.insert("team/a".to_owned());
    calm.running.clear();
    assert_eq!(disagreements(&calm), [""; 0]);
    calm.running.insert("team/a".to_owned(), share(2));
    assert_eq!(disagreements(&calm).len(), 1);
}

#[test]
fn a_file_of_a_pod_that_is_gone_is_found() {
    let mut calm = agreed();
    calm.files.insert("team/gone".to_owned());
    assert_eq!(
        disagreements(&calm),
        ["a CDI file of team/gone is left, whose object is gone"]
    );
}

#[test]
fn nothing_is_left_after_all_was_deleted_and_everything_that_is_left_is_named() {
    assert_eq!(leaks(&CalmSnapshot::default()), [""; 0]);
    assert_eq!(leaks(&agreed()).len(), 4);
}

/// One pod with half a card that ran from 10 s to 20 s and whose object existed from 9 s to 21 s.
fn seen() -> MeteredPods {
    let pod = PodUid::new("a");
    let life = Life {
        first: 10_000,
        last: 20_000,
    };
    let held = HeldTime {
        from: 9_000,
        to: 21_000,
    };
    MeteredPods {
        names: BTreeMap::from([(pod.clone(), "team/a".to_owned())]),
        booked: BTreeMap::from([(pod.clone(), share(8))]),
        held: BTreeMap::from([(pod.clone(), held)]),
        lives: BTreeMap::from([(pod, life)]),
        gaps: Vec::new(),
        sizes: sizes(),
    }
}

/// A charge for half a card, for these seconds.
fn half((from, to, seconds): (i64, i64, i64)) -> PodCharge {
    PodCharge {
        from,
        to,
        seconds,
        unpriced: 0,
        micros: seconds * 500_000,
        cards: share(8),
    }
}

fn ledger(pod: &str, charged: PodCharge) -> BTreeMap<PodUid, PodCharge> {
    BTreeMap::from([(PodUid::new(pod), charged)])
}

/// What `charges` reports about that pod.
fn judged(charged: Option<(i64, i64, i64)>) -> Vec<String> {
    let ledger = charged.map(|charged| ledger("a", half(charged)));
    charges(&seen(), &ledger.unwrap_or_default())
}

#[test]
fn a_charge_for_less_than_was_held_is_found() {
    let two_cards = Shares::from([(card(), 8), (CardId::new("GPU-2"), 8)]);
    let mut seen = seen();
    seen.sizes.insert(CardId::new("GPU-2"), 16);
    seen.booked.insert(PodUid::new("a"), two_cards.clone());
    let one_card = half((9, 20, 11));
    assert_eq!(
        charges(&seen, &ledger("a", one_card.clone())),
        [
            "team/a (a) held {\"GPU-1\": 8, \"GPU-2\": 8}, which costs 11000000 millionths in 11 s, and is charged 5500000 \
             for {\"GPU-1\": 8}"
        ]
    );
    let too_cheap = PodCharge {
        cards: two_cards.clone(),
        ..one_card.clone()
    };
    assert_eq!(charges(&seen, &ledger("a", too_cheap)).len(), 1);
    let both = PodCharge {
        cards: two_cards,
        micros: 11_000_000,
        ..one_card
    };
    assert_eq!(charges(&seen, &ledger("a", both)), [""; 0]);
}

#[test]
fn time_whose_cards_nobody_knew_has_no_price() {
    let unknown = PodCharge {
        unpriced: 11,
        micros: 0,
        cards: Shares::new(),
        ..half((9, 20, 11))
    };
    assert_eq!(charges(&seen(), &ledger("a", unknown)), [""; 0]);
}

#[test]
fn a_charge_of_a_pod_that_was_never_bound_is_found_unless_nobody_looked_then() {
    let mut seen = MeteredPods::default();
    let charged = ledger("b", half((9, 20, 11)));
    assert_eq!(
        charges(&seen, &charged),
        ["the ledger charges b from 9 to 20, which was never seen bound"]
    );
    let gap = |from, to| Gap { from, to };
    seen.gaps = vec![gap(0, 5_000), gap(15_000, 30_000)];
    assert_eq!(charges(&seen, &charged).len(), 1);
    seen.gaps = vec![gap(8_000, 15_000)];
    assert_eq!(charges(&seen, &charged), [""; 0]);
}

#[test]
fn a_seed_with_which_nothing_happened_is_found() {
    let harvest = Harvest {
        bound: 1,
        ran: 1,
        charged: Some(1),
        requests: 1,
    };
    assert_eq!(barren(harvest), [""; 0]);
    let promised_none = Harvest {
        charged: None,
        ..harvest
    };
    assert_eq!(barren(promised_none), [""; 0]);
    let nothing = Harvest {
        bound: 0,
        ran: 0,
        charged: Some(0),
        requests: 0,
    };
    assert_eq!(
        barren(nothing),
        [
            "nothing was judged: no pod was bound with a record",
            "nothing was judged: no pod was seen running on a card",
            "nothing was judged: no metered pod is in the ledger",
            "nothing was judged: the proxy saw no request",
        ]
    );
}

#[test]
fn a_charge_from_the_bind_to_the_end_is_right() {
    assert_eq!(judged(Some((9, 20, 11))), [""; 0]);
}

#[test]
fn a_missing_charge_is_found() {
    assert_eq!(
        judged(None),
        ["team/a (a) ran for 10 s and the ledger has nothing"]
    );
}

#[test]
fn a_charge_that_ends_before_the_container_did_is_found() {
    assert_eq!(
        judged(Some((9, 14, 5))),
        ["team/a (a) ran for 10 s and 5 s are charged"]
    );
}

#[test]
fn a_charge_for_time_in_which_nothing_was_held_is_found() {
    assert_eq!(
        judged(Some((9, 60, 51))),
        ["team/a (a) held its cards from 9 to 21 and is charged 51 s from 9 to 60"]
    );
}
