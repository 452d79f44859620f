//! What lists, watches and reads show beside binds, in any order.

use gpushare_core::Amounts;
use gpushare_core::placement::Hold;

use super::*;
use crate::PodEvent;

#[test]
fn what_the_watch_shows_first_outlives_the_answer_to_the_bind() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    runs(&mut books, "u1", 3);
    assert_eq!(books.not_bound(&uid), Followup::Nothing);
    assert_eq!(books.unknown(&uid), Followup::Nothing);
    let overtaken = Outcome::Overtaken(String::new());
    books.conclude(&uid, &overtaken);
    assert_eq!(
        books.nodes.booking_state(&uid),
        Some(BookingState::Confirmed)
    );

    let uid = "u2".into();
    reserve(&mut books, "u2", 3).unwrap();
    books.end_pod(&uid);
    assert_eq!(books.bound(&uid), Followup::Nothing);
    assert_eq!(
        used(&books, CARD),
        3,
        "a pod deleted during its bind holds nothing"
    );
}

#[test]
fn an_answer_older_than_the_pods_end_does_not_book_it_again() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    let record = reserve(&mut books, "u1", 3).unwrap().record;
    let read = books.begin_read(&uid);
    books.end_pod(&uid);
    let verdict = books.finish_read(&uid, read, Some(running("u1", 3, &record)));
    assert!(matches!(verdict, Finding::Stale), "{verdict:?}");
    assert_eq!(used(&books, CARD), 0);

    let read = books.begin_read(&uid);
    books.replace_pods(Vec::new(), &[]);
    let verdict = books.finish_read(&uid, read, Some(running("u1", 3, &record)));
    assert!(matches!(verdict, Finding::Stale), "{verdict:?}");

    let read = books.begin_read(&uid);
    let verdict = books.finish_read(&uid, read, None);
    assert!(matches!(verdict, Finding::Gone), "{verdict:?}");
    assert!(books.reads.is_empty());
}

#[test]
fn a_pod_recreated_under_its_name_is_another_pod() {
    let mut books = books(&[(CARD, 8)]);
    reserve(&mut books, "u1", 3).unwrap();
    books.read_now(&"u1".into(), Some(pending("u2", 3)));
    assert_eq!(used(&books, CARD), 0);
}

#[test]
fn a_list_ends_what_is_gone_and_asks_about_what_it_cannot_know() {
    let mut books = books(&[(CARD, 16)]);
    runs(&mut books, "gone", 1);
    let stays = runs(&mut books, "stays", 2);
    reserve(&mut books, "settled", 3).unwrap();
    books.bound(&"settled".into());
    reserve(&mut books, "under-way", 4).unwrap();

    let to_read = books.replace_pods(vec![running("stays", 2, &stays)], &[]);
    let to_read: Vec<_> = to_read.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(to_read, ["settled"]);
    assert_eq!(used(&books, CARD), 2 + 3 + 4);
    assert_eq!(books.bound(&"under-way".into()), Followup::Read);
    for uid in ["settled", "under-way"] {
        let uid = uid.into();
        books.read_now(&uid, None);
    }
    assert_eq!(used(&books, CARD), 2);
    assert!(books.attempts.is_empty());
}

#[test]
fn a_list_older_than_a_read_does_not_end_what_the_read_showed() {
    let (mut books, uid, record) = in_doubt();
    let older = vec![pending("u1", 8)];
    books.read_now(&uid, Some(running("u1", 8, &record)));

    let to_read = books.replace_pods(older, &[]);
    assert_eq!(used(&books, CARD), 8, "it runs");
    assert_eq!(to_read, [named("u1")], "it may have ended since");
    books.apply_pod(running("u1", 8, &record));
    assert_eq!(
        books.nodes.booking_state(&uid),
        Some(BookingState::Confirmed)
    );
}

#[test]
fn a_pod_missing_from_a_list_is_read_after_its_bind_whatever_came_of_that() {
    for outcome in [
        Outcome::Bound,
        Outcome::Refused(String::new()),
        Outcome::Overtaken(String::new()),
    ] {
        let mut books = books(&[(CARD, 8)]);
        let uid = "u1".into();
        reserve(&mut books, "u1", 8).unwrap();
        books.replace_pods(Vec::new(), &[]);
        let followup = books.conclude(&uid, &outcome);
        assert_eq!(followup, Followup::Read, "{outcome:?}");
        books.read_now(&uid, None);
        assert!(books.ledger().is_empty() && books.pods.count() == 0);
    }
}

/// Books in which a bind of the pod `u1` has begun, although the watch does not show the pod any more.
fn gone_at_bind() -> Books {
    let mut books = books(&[(CARD, 8)]);
    let ask = pending("u1", 8).ask.unwrap().unwrap();
    let reserved = books.reserve(&named("u1"), &ask, &NODE.into(), AliyunUnit::GiB, 1);
    assert!(reserved.is_ok());
    books
}

#[test]
fn a_doubt_is_cleared_also_if_the_pod_was_gone_when_its_bind_began() {
    let (mut books, uid) = (gone_at_bind(), "u1".into());
    books.unknown(&uid);
    assert_eq!(books.replace_pods(Vec::new(), &[]), [], "its fence follows");
    books.fence_now(&uid, None);
    assert!(books.ledger().is_empty() && books.pods.count() == 0);
}

#[test]
fn a_pod_that_was_gone_when_its_bind_began_is_read_after_it_and_after_a_list() {
    let mut books = gone_at_bind();
    assert_eq!(books.bound(&"u1".into()), Followup::Read);
    let to_read = books.replace_pods(Vec::new(), &[]);
    assert_eq!(to_read, [named("u1")]);
}

#[test]
fn reads_of_one_pod_at_once_do_not_keep_each_other_from_an_answer() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    let old = books.begin_read(&uid);
    books.replace_pods(vec![pending("u1", 8)], &[]);
    let newer = books.begin_read(&uid);
    let verdict = books.finish_read(&uid, old, Some(pending("u1", 8)));
    assert!(matches!(verdict, Finding::Stale), "{verdict:?}");
    let again = books.begin_read(&uid);
    for read in [newer, again] {
        let verdict = books.finish_read(&uid, read, Some(pending("u1", 8)));
        assert!(matches!(verdict, Finding::Found(_)), "{verdict:?}");
    }
    assert!(books.reads.is_empty());
}

#[test]
fn a_record_changed_after_the_bind_moves_nothing() {
    let mut books = books(&[("GPU-big", 16), (CARD, 8)]);
    let record = reserve(&mut books, "u1", 3).unwrap().record;
    books.bound(&"u1".into());
    let forged = record.replace(CARD, "GPU-big");
    for changed in [
        running("u1", 3, &forged),
        pod("u1", 3, Some(NODE), None, "Running"),
    ] {
        books.apply_pod(changed.clone());
        assert_eq!((used(&books, CARD), used(&books, "GPU-big")), (3, 0));
        books.replace_pods(vec![changed], &[]);
        assert_eq!((used(&books, CARD), used(&books, "GPU-big")), (3, 0));
    }
}

#[test]
fn a_pod_that_becomes_invalid_keeps_what_its_bind_has_booked_until_the_outcome_is_known() {
    for listed in [false, true] {
        let mut books = books(&[(CARD, 8)]);
        let uid = PodUid::new("u1");
        reserve(&mut books, "u1", 8).unwrap();
        let invalid = PodEvent::of(senseless("u1", 8));
        if listed {
            PodEvent::replace(vec![invalid], &mut books);
        } else {
            assert!(invalid.apply(&mut books).is_some(), "its owner is told");
        }
        assert_eq!(used(&books, CARD), 8);
        let known = books.pods().get("u1").unwrap();
        assert!(!known.wants_node(), "nothing is decided for it");
        assert!(reserve(&mut books, "u2", 8).is_err());
        books.not_bound(&uid);
        assert_eq!(used(&books, CARD), 0);

        // Without a bind under way the invalid pod is forgotten, until its request makes sense again.
        PodEvent::of(senseless("u1", 8)).apply(&mut books);
        assert!(books.pods().get("u1").is_none());
        reserve(&mut books, "u1", 8).unwrap();
    }
}

#[test]
fn what_a_pod_chose_while_it_waited_is_remembered_of_a_bound_one() {
    let mut books = books(&[(CARD, 8)]);
    let chosen = annotated("u1", 8, None, &json!({names::POLICY: "spread"}));
    let ask = chosen.ask.clone().unwrap().unwrap();
    books.apply_pod(chosen);
    let reserved = books.reserve(&named("u1"), &ask, &NODE.into(), AliyunUnit::GiB, 1);
    let record = reserved.unwrap().record;
    let edited = json!({names::ALLOCATION: record, names::POLICY: "x"});
    let bound = annotated("u1", 8, Some(NODE), &edited);
    books.apply_pod(bound.clone());
    assert_eq!(books.pods().get("u1").unwrap().ask, ask);
    books.replace_pods(vec![bound], &[]);
    assert_eq!(books.pods().get("u1").unwrap().ask, ask);
    assert_eq!(used(&books, CARD), 8);
}

#[test]
fn a_bound_pod_without_a_believable_record_is_not_booked() {
    let mut books = books(&[(CARD, 8)]);
    books.apply_pod(pod("u1", 3, Some(NODE), None, "Pending"));
    books.apply_pod(running("u2", 3, "{}"));
    let foreign = reserve(&mut books, "u3", 3).unwrap().record;
    books.not_bound(&"u3".into());
    books.apply_pod(running("u4", 3, &foreign));
    assert_eq!(used(&books, CARD), 0);
}

#[test]
fn a_node_that_goes_and_returns_keeps_the_bookings_of_its_pods() {
    let mut books = books(&[(CARD, 8)]);
    runs(&mut books, "u1", 3);
    books.replace_nodes(vec![node("n2", &[("GPU-z", 8)])]);
    assert!(books.nodes().get(NODE).is_none());
    assert!(reserve(&mut books, "u2", 1).is_err());
    books.apply_node(node(NODE, &[(CARD, 8)]));
    assert_eq!(used(&books, CARD), 3);
    books.delete_node(NODE);
    assert!(books.nodes().get(NODE).is_none());
}

#[test]
fn nothing_is_ready_before_both_lists() {
    let mut books = Books::new(gpu::classes(), Policy::default(), Bells::default());
    assert!(books.ready().unwrap_err().contains("nodes"));
    books.replace_nodes(Vec::new());
    assert!(books.ready().unwrap_err().contains("pods"));
    books.replace_pods(Vec::new(), &[]);
    assert_eq!(books.ready(), Ok(()));
}

/// Binds, refusals, doubts, watch events and reads from many threads at once: a card is never booked past
/// its size, and nothing is held in the end.
#[test]
fn many_threads_never_book_past_the_card() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    let shared = RwLock::new(books(&[(CARD, 8)]));
    let start = Barrier::new(usize::try_from(THREADS).unwrap());
    let bound = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, start, bound) = (&shared, &start, &bound);
            scope.spawn(move || {
                start.wait();
                for round in 0..ROUNDS {
                    let name = format!("u-{thread}-{round}");
                    let (uid, gib) = (PodUid::new(&name), 1 + (thread + round) % 4);
                    let Ok(reserved) = reserve(&mut shared.write(), &name, gib) else {
                        shared.write().end_pod(&uid);
                        continue;
                    };
                    assert!(used(&shared.read(), CARD) <= 8);
                    match round % 3 {
                        0 => drop(shared.write().not_bound(&uid)),
                        1 => {
                            shared.write().bound(&uid);
                            shared
                                .write()
                                .apply_pod(running(&name, gib, &reserved.record));
                            bound.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        _ => {
                            shared.write().unknown(&uid);
                            let fence = shared.write().begin_read(&uid);
                            let unbound = Some(pending(&name, gib));
                            shared.write().finish_fence(&uid, fence, unbound);
                        }
                    }
                    assert!(used(&shared.read(), CARD) <= 8);
                    shared.write().end_pod(&uid);
                }
            });
        }
    });
    let books = shared.into_inner();
    assert!(bound.into_inner() > 0, "some binds must have succeeded");
    assert_eq!(used(&books, CARD), 0);
    assert!(books.ledger().is_empty() && books.pods.count() == 0);
    assert!(books.attempts.is_empty() && books.reads.is_empty());
}

/// The node, with containers whose pods are gone and that hold this much of its card.
fn node_holding(pods: &[(&str, u64)]) -> NodeFacts {
    let held = pods.iter().map(|(uid, gib)| HeldPod {
        pod: (*uid).into(),
        name: format!("team/pod-{uid}").into(),
        charges: [(CARD.into(), Hold::Part(Amounts::of(MEMORY, gib * GIB)))]
            .into_iter()
            .collect(),
    });
    NodeFacts {
        held: held.collect(),
        ..node(NODE, &[(CARD, 8)])
    }
}

#[test]
fn containers_that_outlive_their_pod_keep_their_room_until_the_agent_takes_it_back() {
    let mut books = books(&[(CARD, 8)]);
    runs(&mut books, "u1", 6);
    // The agent may learn before the extender that the pod's object is gone.
    books.apply_node(node_holding(&[("u1", 6)]));
    assert_eq!(used(&books, CARD), 6, "counted once");
    books.end_pod(&"u1".into());
    assert_eq!(used(&books, CARD), 6);
    let refused = reserve(&mut books, "u2", 4).unwrap_err();
    assert!(
        refused.contains("held by containers of a pod that no longer exists"),
        "{refused}"
    );
    books.replace_pods(vec![pending("u2", 4)], &[]);
    assert_eq!(used(&books, CARD), 6, "a list of pods does not know of it");
    let before = books.moment();
    books.apply_node(node_holding(&[]));
    assert!(books.moment() > before, "waiting pods are told");
    reserve(&mut books, "u2", 4).unwrap();
}

#[test]
fn a_new_extender_learns_from_the_node_what_is_held_without_a_pod() {
    let mut books = books(&[(CARD, 8)]);
    books.apply_node(node_holding(&[("u1", 6)]));
    books.replace_pods(vec![pending("u2", 4)], &[]);
    reserve(&mut books, "u2", 4).unwrap_err();
    books.delete_node(NODE);
    books.apply_node(node_holding(&[]));
    reserve(&mut books, "u2", 4).unwrap();
}
