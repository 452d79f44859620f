//! Planted mistakes must be found, and a history without one must pass.

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

fn holds(pod: &str, mib: u64) -> Seen {
    Seen::Holds {
        pod: PodUid::new(pod),
        name: format!("team/{pod}"),
        shares: share(mib),
    }
}

fn free(pod: &str) -> Seen {
    Seen::Free {
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
    let running = running.iter().map(|(pod, mib)| Running {
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
        ["containers with 20 MiB ran together on card GPU-1 of 16: a 10, b 10 (first at 200 ms)"]
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

fn agreed() -> Calm {
    let held = BTreeMap::from([("team/a".to_owned(), share(10))]);
    let names = BTreeSet::from(["team/a".to_owned()]);
    Calm {
        books: held.clone(),
        records: held.clone(),
        running: held,
        files: names.clone(),
        objects: names,
        ..Calm::default()
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
        leaks(&Calm {
            books: calm.books,
            ..Calm::default()
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
    assert_eq!(leaks(&Calm::default()), [""; 0]);
    assert_eq!(leaks(&agreed()).len(), 4);
}

/// What `charges` says of one pod that ran from 10 s to 20 s and whose object was there from 9 s to 21 s.
fn judged(charged: Option<(i64, i64, i64)>) -> Vec<String> {
    let pod = PodUid::new("a");
    let life = Life {
        first: 10_000,
        last: 20_000,
    };
    let held = Held {
        from: 9_000,
        to: 21_000,
    };
    let charged = charged.map(|(from, to, seconds)| Charged { from, to, seconds });
    charges(
        &BTreeMap::from([(pod.clone(), life)]),
        &BTreeMap::from([(pod.clone(), held)]),
        &charged
            .map(|charged| (pod.clone(), charged))
            .into_iter()
            .collect(),
        &BTreeMap::from([(pod, "team/a".to_owned())]),
    )
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
