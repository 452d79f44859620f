//! Binds: what is booked after each answer, and without one.

use super::*;

#[test]
fn a_bind_is_settled_by_its_answer_confirmed_by_the_watch_and_freed_at_the_end() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    let record = reserve(&mut books, "u1", 3).unwrap().record;
    assert_eq!(used(&books, CARD), 3, "reserved");
    assert_eq!(books.bound(&uid), Followup::Nothing);
    assert_eq!(books.nodes.booking_state(&uid), Some(BookingState::Settled));
    books.apply_pod(running("u1", 3, &record));
    assert_eq!(
        books.nodes.booking_state(&uid),
        Some(BookingState::Confirmed)
    );
    assert_eq!(used(&books, CARD), 3, "confirmed once, not twice");
    books.apply_pod(pod("u1", 3, Some(NODE), Some(&record), "Succeeded"));
    assert_eq!(used(&books, CARD), 0);
    assert!(books.pods().get("u1").is_none());
}

#[test]
fn the_record_names_pod_node_and_card_and_old_tools_get_their_annotations() {
    let mut books = books(&[("GPU-big", 16), (CARD, 8)]);
    let reserved = reserve(&mut books, "u1", 3).unwrap();
    let record: Value = serde_json::from_str(&reserved.record).unwrap();
    assert_eq!(record["pod"], "u1");
    assert_eq!(record["node"], NODE);
    assert_eq!(
        record["containers"][0]["cards"][0]["id"], CARD,
        "the tighter card"
    );
    assert_eq!(reserved.compatible["ALIYUN_COM_GPU_MEM_IDX"], "1");
    assert_eq!(reserved.compatible["ALIYUN_COM_GPU_MEM_DEV"], "8");
}

#[test]
fn a_refused_bind_gives_the_room_back() {
    let mut books = books(&[(CARD, 8)]);
    reserve(&mut books, "u1", 8).unwrap();
    let full = reserve(&mut books, "u2", 1).unwrap_err();
    assert!(full.contains("no card has 1024 MiB"), "{full}");
    assert_eq!(books.not_bound(&"u1".into()), Followup::Nothing);
    assert_eq!(used(&books, CARD), 0);
    reserve(&mut books, "u2", 1).unwrap();
}

#[test]
fn a_doubtful_bind_keeps_its_room_until_a_fence_shows_the_pod_without_a_node() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    reserve(&mut books, "u1", 8).unwrap();
    assert_eq!(books.unknown(&uid), Followup::Fence);

    books.read_now(&uid, Some(pending("u1", 8)));
    books.apply_pod(pending("u1", 8));
    assert_eq!(used(&books, CARD), 8, "the request may still take effect");
    let again = reserve(&mut books, "u1", 8).unwrap_err();
    assert_eq!(again, "an earlier bind to n1 is not settled yet");

    books.fence_now(&uid, Some(pending("u1", 8)));
    assert_eq!(used(&books, CARD), 0);
    assert!(
        books.pods().get("u1").is_some(),
        "the pod itself still waits"
    );
    reserve(&mut books, "u1", 8).unwrap();
}

#[test]
fn a_doubtful_bind_that_took_effect_is_settled_by_a_fence() {
    let (mut books, uid, record) = in_doubt();
    books.fence_now(&uid, Some(running("u1", 8, &record)));
    assert_eq!(books.nodes.booking_state(&uid), Some(BookingState::Settled));
    assert_eq!(used(&books, CARD), 8);
}

/// A tenant that changes its pod all the time must not keep binds closed.
#[test]
fn a_fence_of_a_pod_without_a_node_counts_whatever_became_known_of_the_pod_since() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    books.apply_pod(pending("u1", 8));
    let fence = books.begin_read(&uid);
    books.apply_invalid(&uid);
    let verdict = books.finish_fence(&uid, fence, Some(pending("u1", 8)));
    assert!(matches!(verdict, Finding::Fenced(_)), "{verdict:?}");

    reserve(&mut books, "u1", 8).unwrap();
    books.unknown(&uid);
    let fence = books.begin_read(&uid);
    books.replace_pods(vec![pending("u1", 8)], &[]);
    books.finish_fence(&uid, fence, Some(pending("u1", 8)));
    assert_eq!(used(&books, CARD), 0);
}

/// The fence's write may be older than the version that the bind names.
#[test]
fn a_fence_that_began_before_the_bind_says_nothing_about_it() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    let early = books.begin_read(&uid);
    reserve(&mut books, "u1", 8).unwrap();
    books.unknown(&uid);
    books.finish_fence(&uid, early, Some(pending("u1", 8)));
    assert_eq!(used(&books, CARD), 8, "the request may still take effect");
    assert_eq!(books.nodes.booking_state(&uid), Some(BookingState::InDoubt));
}

#[test]
fn a_fence_does_not_end_a_bind_that_is_under_way() {
    let mut books = books(&[(CARD, 8)]);
    let uid = "u1".into();
    reserve(&mut books, "u1", 8).unwrap();
    books.fence_now(&uid, Some(pending("u1", 8)));
    assert_eq!(used(&books, CARD), 8, "its answer comes first");
}

#[test]
fn pods_that_the_scheduler_looks_for_a_node_for_are_those_to_be_fenced() {
    let mut books = books(&[(CARD, 8)]);
    runs(&mut books, "bound", 3);
    books.apply_pod(pending("waits", 3));
    let mut gated = pending("gated", 3);
    gated.gated = true;
    books.apply_pod(gated);
    let pending = books.pods().pending().map(|known| known.pod.clone());
    assert_eq!(pending.collect::<Vec<_>>(), [named("waits")]);
}
