use gpushare_core::PodAsk;
use gpushare_kube::convert::PodFacts;

use super::*;
use crate::Books;
use crate::books::tests::{NODE, books, node, pending, reserve, reserve_on, running};

const MANY: usize = 1000;

/// The pod is refused on the named nodes, by what the books know now.
fn refuse(books: &mut Books, facts: PodFacts, nodes: &[&str], now: Instant) {
    let refused = RefusedPod::new(facts, nodes.iter().copied(), books.moment()).unwrap();
    let candidates = books.numbered(&refused);
    books.refused(refused, candidates, now);
}

fn urgent(uid: &str, gib: u64, priority: i32, created: i64) -> PodFacts {
    let mut facts = pending(uid, gib);
    facts.rank.priority = priority;
    facts.created = created;
    facts
}

/// The pods that a round wakes.
fn woken(books: &mut Books, now: Instant, most: usize) -> Vec<String> {
    books.end_prospects(now);
    let plan = books.outlook(now).plan(most);
    let woken = books.note_plan(plan, now);
    woken.iter().map(|pod| pod.uid.to_string()).collect()
}

/// A node with one card of 8 GiB that a pod holds.
fn full() -> Books {
    let mut books = books(&[("GPU-a", 8)]);
    reserve(&mut books, "holder", 8).unwrap();
    books
}

/// The pod that holds the card ends; these pods are woken for the room.
fn freed(books: &mut Books, now: Instant) -> Vec<String> {
    books.end_pod(&"holder".into());
    woken(books, now, MANY)
}

#[test]
fn nobody_is_woken_before_room_appears() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, pending("p", 4), &[NODE], now);
    assert_eq!(books.waiting().count(), 1);
    assert!(woken(&mut books, now, MANY).is_empty());
}

#[test]
fn freed_room_wakes_as_many_as_it_holds_best_first() {
    let (mut books, now) = (full(), Instant::now());
    for (uid, gib, priority, created) in [
        ("young", 4, 0, 30),
        ("too-large", 9, 100, 0),
        ("old", 4, 0, 10),
        ("urgent", 4, 5, 99),
        ("small", 1, 0, 40),
    ] {
        let facts = urgent(uid, gib, priority, created);
        refuse(&mut books, facts, &[NODE], now);
    }
    assert_eq!(freed(&mut books, now), ["urgent", "old"]);
    let more = woken(&mut books, now, MANY);
    assert!(more.is_empty(), "what remains is spoken for");
}

#[test]
fn a_refusal_that_is_noted_late_does_not_miss_the_room() {
    let (mut books, now) = (full(), Instant::now());
    let moment = books.moment();
    assert!(freed(&mut books, now).is_empty());
    let refused = RefusedPod::new(pending("p", 4), [NODE].into_iter(), moment).unwrap();
    let candidates = books.numbered(&refused);
    books.refused(refused, candidates, now);
    assert_eq!(woken(&mut books, now, MANY), ["p"]);
}

#[test]
fn room_on_a_node_that_the_scheduler_ruled_out_wakes_nobody_unless_its_cards_changed() {
    let (mut books, now) = (full(), Instant::now());
    books.apply_node(node("other", &[("GPU-b", 2)]));
    refuse(&mut books, pending("p", 4), &["other"], now);
    assert!(freed(&mut books, now).is_empty());
    books.apply_node(node(NODE, &[("GPU-a", 8)]));
    assert!(woken(&mut books, now, MANY).is_empty(), "nothing new");
    books.apply_node(node(NODE, &[("GPU-a", 16)]));
    assert_eq!(woken(&mut books, now, MANY), ["p"]);
}

#[test]
fn a_new_node_and_a_recovered_card_wake_pods() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, pending("p", 4), &[NODE], now);
    refuse(&mut books, pending("q", 4), &[NODE], now);
    let mut sick = node("new", &[("GPU-b", 4), ("GPU-c", 4)]);
    sick.cards[0].healthy = false;
    books.apply_node(sick);
    assert_eq!(woken(&mut books, now, MANY), ["p"]);
    books.apply_node(node("new", &[("GPU-b", 4), ("GPU-c", 4)]));
    assert_eq!(woken(&mut books, now, MANY), ["q"]);
}

#[test]
fn a_round_stops_at_its_limit_and_the_next_goes_on() {
    let mut books = books(&[("GPU-a", 8)]);
    let now = Instant::now();
    reserve(&mut books, "holder", 8).unwrap();
    for (uid, created) in [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)] {
        refuse(&mut books, urgent(uid, 2, 0, created), &[NODE], now);
    }
    books.end_pod(&"holder".into());
    assert!(books.outlook(now).plan(3).unfinished);
    assert_eq!(woken(&mut books, now, 3), ["a", "b", "c"]);
    assert_eq!(woken(&mut books, now, 3), ["d"]);
}

#[test]
fn who_is_woken_and_refused_again_makes_way_and_pauses_longer_each_time() {
    let (mut books, mut now) = (full(), Instant::now());
    refuse(&mut books, urgent("p", 8, 1, 0), &[NODE], now);
    refuse(&mut books, urgent("q", 8, 0, 0), &[NODE], now);
    assert_eq!(freed(&mut books, now), ["p"]);
    // It is refused once more, for whatever reason: the other pod may have the room.
    refuse(&mut books, urgent("p", 8, 1, 0), &[NODE], now);
    assert_eq!(woken(&mut books, now, MANY), ["q"]);
    books.stop_waiting(&"q".into());
    let later = woken(&mut books, now + PROSPECT_LASTS, MANY);
    assert!(later.is_empty(), "nothing new");
    for pause in [1, 2, 4, 8] {
        // Room comes and goes, and comes again.
        reserve(&mut books, "passer-by", 8).unwrap();
        books.end_pod(&"passer-by".into());
        now += Duration::from_millis(pause * 1000 - 1);
        assert!(woken(&mut books, now, MANY).is_empty(), "{pause}");
        assert_eq!(
            books.outlook(now).plan(MANY).next,
            Some(now + Duration::from_millis(1))
        );
        now += Duration::from_millis(1);
        assert_eq!(woken(&mut books, now, MANY), ["p"], "{pause}");
        refuse(&mut books, urgent("p", 8, 1, 0), &[NODE], now);
    }
}

#[test]
fn a_prospect_that_is_not_used_ends_and_the_room_goes_to_the_next() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, urgent("p", 8, 1, 0), &[NODE], now);
    refuse(&mut books, urgent("q", 8, 0, 0), &[NODE], now);
    assert_eq!(freed(&mut books, now), ["p"]);
    let later = now + PROSPECT_LASTS;
    assert_eq!(books.outlook(now).plan(MANY).next, Some(later));
    // The pod that was woken in vain has had its chance.
    assert_eq!(woken(&mut books, later, MANY), ["q"]);
    assert!(woken(&mut books, later + PROSPECT_LASTS, MANY).is_empty());
}

#[test]
fn a_wake_that_did_not_reach_its_pod_is_repeated_after_a_pause() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, pending("p", 8), &[NODE], now);
    assert_eq!(freed(&mut books, now), ["p"]);
    books.wake_failed(&"p".into());
    assert!(woken(&mut books, now, MANY).is_empty());
    assert_eq!(woken(&mut books, now + FIRST_PAUSE, MANY), ["p"]);
}

#[test]
fn a_pod_that_is_booked_elsewhere_leaves_its_prospect_to_others() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, urgent("p", 8, 1, 0), &[NODE], now);
    refuse(&mut books, urgent("q", 8, 0, 0), &[NODE], now);
    assert_eq!(freed(&mut books, now), ["p"]);
    books.apply_node(node("other", &[("GPU-b", 8)]));
    reserve_on(&mut books, "p", 8, "other").unwrap();
    assert_eq!(books.waiting().count(), 1);
    assert_eq!(woken(&mut books, now, MANY), ["q"]);
}

/// A way in which a pod stops waiting.
type Way = (&'static str, fn(&mut Books));

#[test]
fn pods_leave_when_they_are_booked_bound_deleted_gated_or_gone() {
    let now = Instant::now();
    let ways: [Way; 5] = [
        ("booked", |books| {
            books.end_pod(&"holder".into());
            reserve(books, "p", 4).unwrap();
        }),
        ("bound", |books| {
            books.apply_pod(running("p", 4, "no record"));
        }),
        ("deleting", |books| {
            let mut facts = pending("p", 4);
            facts.deleting = true;
            books.apply_pod(facts);
        }),
        ("gone", |books| books.end_pod(&"p".into())),
        ("not listed", |books| {
            drop(books.replace_pods(Vec::new(), &[]));
        }),
    ];
    for (how, leave) in ways {
        let mut books = full();
        books.apply_pod(pending("p", 4));
        refuse(&mut books, pending("p", 4), &[NODE], now);
        assert_eq!(books.waiting().count(), 1, "{how}");
        leave(&mut books);
        assert_eq!(books.waiting().count(), 0, "{how}");
        // A refusal that arrives late changes nothing, unless nothing is known of the pod.
        if !matches!(how, "gone" | "not listed") {
            refuse(&mut books, pending("p", 4), &[NODE], now);
            assert_eq!(books.waiting().count(), 0, "{how}");
        }
    }
}

#[test]
fn a_list_keeps_waiting_pods_that_may_be_newer_than_it() {
    let (mut books, now) = (full(), Instant::now());
    refuse(&mut books, pending("unseen", 4), &[NODE], now);
    books.replace_pods(Vec::new(), &[]);
    assert_eq!(books.waiting().count(), 1);
}

#[test]
fn after_a_start_pending_pods_that_nobody_asked_about_are_woken_if_they_fit() {
    let (mut books, now) = (full(), Instant::now());
    for facts in [pending("fits", 4), pending("does-not", 16)] {
        books.apply_pod(facts);
    }
    let mut gated = pending("gated", 1);
    gated.gated = true;
    books.apply_pod(gated);
    books.apply_node(node("other", &[("GPU-b", 4)]));
    books.await_all_pending(now);
    assert_eq!(woken(&mut books, now, MANY), ["fits"]);
}

#[test]
fn a_node_that_is_new_since_the_refusal_counts_for_everybody_also_when_it_is_full_at_first() {
    let (mut books, now) = (full(), Instant::now());
    books.apply_node(node("old", &[("GPU-b", 1)]));
    refuse(&mut books, pending("p", 4), &["old"], now);
    books.delete_node("old");
    books.apply_node(node("new", &[("GPU-c", 8)]));
    reserve_on(&mut books, "q", 8, "new").unwrap();
    assert!(woken(&mut books, now, MANY).is_empty());
    books.end_pod(&"q".into());
    assert_eq!(woken(&mut books, now, MANY), ["p"]);
}

#[test]
fn the_last_are_forgotten_when_too_many_wait() {
    let (mut books, now) = (full(), Instant::now());
    for number in 0..=MOST_WAITING {
        let created = i64::try_from(number).unwrap();
        let facts = urgent(&format!("u-{number}"), 1, 0, created);
        refuse(&mut books, facts, &[NODE], now);
    }
    assert_eq!(books.waiting().count(), MOST_WAITING);
    books.end_pod(&"holder".into());
    assert_eq!(woken(&mut books, now, 1), ["u-0"]);
}

/// Eight cards of different sizes, one of which a pod of 10 GiB holds.
fn eight_unequal() -> Books {
    let cards: [(&str, u64); 8] = [
        ("GPU-a", 16),
        ("GPU-b", 15),
        ("GPU-c", 14),
        ("GPU-d", 13),
        ("GPU-e", 12),
        ("GPU-f", 11),
        ("GPU-g", 10),
        ("GPU-h", 17),
    ];
    let mut books = books(&cards);
    reserve(&mut books, "holder", 10).unwrap();
    books
}

/// A pod with `number` containers that each ask for `gib` GiB of a card.
fn several(uid: &str, number: usize, gib: u64, priority: i32) -> PodFacts {
    let mut facts = urgent(uid, gib, priority, 0);
    let one = facts.ask.clone().unwrap().unwrap().containers[0].clone();
    let containers = (0..number).map(|at| {
        let mut ask = one.clone();
        ask.container = format!("{uid}-{at}").into();
        ask
    });
    facts.ask = Ok(Some(PodAsk {
        containers: containers.collect(),
    }));
    facts
}

/// Nine containers for eight cards, none of which takes two: proving that takes trying every order.
fn hard(uid: &str) -> PodFacts {
    several(uid, 9, 9, 100)
}

#[test]
fn pods_that_are_hard_to_place_are_looked_at_in_rounds_and_nobody_waits_for_them() {
    let (mut books, now) = (eight_unequal(), Instant::now());
    for number in 0..50 {
        refuse(&mut books, hard(&format!("hard-{number}")), &[NODE], now);
    }
    refuse(&mut books, pending("ordinary", 4), &[NODE], now);
    books.end_pod(&"holder".into());
    let first = books.outlook(now).plan(MANY);
    assert!(first.unfinished, "all were decided at once");
    let woken = books.note_plan(first, now);
    let uids: Vec<&str> = woken.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(uids, ["ordinary"]);
    let second = books.outlook(now).plan(MANY);
    assert!(!second.unfinished, "the rest was not decided");
}

#[test]
fn a_pod_that_got_the_last_few_steps_of_a_round_is_woken_in_the_next() {
    // Each hopeless pod takes eight steps; these counts leave the last pod a few steps of the round, or none.
    for hopeless in 1_247..=1_250 {
        let (mut books, now) = (eight_unequal(), Instant::now());
        for number in 0..29 {
            refuse(&mut books, hard(&format!("hard-{number}")), &[NODE], now);
        }
        for number in 0..hopeless {
            let pod = several(&format!("hopeless-{number}"), 2, 100, 50);
            refuse(&mut books, pod, &[NODE], now);
        }
        refuse(&mut books, several("modest", 2, 8, 0), &[NODE], now);
        books.end_pod(&"holder".into());
        let mut rounds = woken(&mut books, now, MANY);
        rounds.extend(woken(&mut books, now, MANY));
        assert_eq!(rounds, ["modest"], "after {hopeless} others");
    }
}

#[test]
fn a_pod_behind_many_hard_ones_is_woken_also_if_room_appears_between_any_two_rounds() {
    let (mut books, now) = (eight_unequal(), Instant::now());
    for number in 0..60 {
        refuse(&mut books, hard(&format!("hard-{number}")), &[NODE], now);
    }
    refuse(&mut books, several("modest", 2, 8, 0), &[NODE], now);
    books.end_pod(&"holder".into());
    let mut rounds = Vec::new();
    for _ in 0..4 {
        rounds.extend(woken(&mut books, now, MANY));
        reserve(&mut books, "passer-by", 1).unwrap();
        books.end_pod(&"passer-by".into());
    }
    assert_eq!(rounds, ["modest"]);
}

#[test]
fn an_ordinary_pod_is_woken_before_a_worse_one_that_was_passed_over() {
    let (mut books, now) = (eight_unequal(), Instant::now());
    for number in 0..30 {
        refuse(&mut books, hard(&format!("hard-{number}")), &[NODE], now);
    }
    refuse(&mut books, several("modest", 2, 8, 0), &[NODE], now);
    assert!(freed(&mut books, now).is_empty());
    let moment = books.moment();
    let ordinary = RefusedPod::new(urgent("ordinary", 4, 1, 0), [NODE].into_iter(), moment - 1);
    let ordinary = ordinary.unwrap();
    let candidates = books.numbered(&ordinary);
    books.refused(ordinary, candidates, now);
    assert_eq!(woken(&mut books, now, MANY), ["ordinary", "modest"]);
}
