//! Binds: what is booked by each answer, and by none.

use super::*;

#[test]
fn a_bind_is_settled_by_its_answer_confirmed_by_the_watch_and_freed_at_the_end() {
    let mut state = state(&[(CARD, 8)]);
    let uid = "u1".into();
    let record = reserve(&mut state, "u1", 3).unwrap().record;
    assert_eq!(used(&state, CARD), 3, "reserved");
    assert_eq!(state.bound(&uid), Followup::Nothing);
    assert_eq!(state.booked(&uid), Some(Booked::Settled));
    state.apply_pod(running("u1", 3, &record));
    assert_eq!(state.booked(&uid), Some(Booked::Confirmed));
    assert_eq!(used(&state, CARD), 3, "confirmed once, not twice");
    state.apply_pod(pod("u1", 3, Some(NODE), Some(&record), "Succeeded"));
    assert_eq!(used(&state, CARD), 0);
    assert!(state.pod("u1").is_none());
}

#[test]
fn the_record_names_pod_node_and_card_and_old_tools_get_their_annotations() {
    let mut state = state(&[("GPU-big", 16), (CARD, 8)]);
    let reserved = reserve(&mut state, "u1", 3).unwrap();
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
    let mut state = state(&[(CARD, 8)]);
    reserve(&mut state, "u1", 8).unwrap();
    let full = reserve(&mut state, "u2", 1).unwrap_err();
    assert!(full.contains("no card has 1024 MiB"), "{full}");
    assert_eq!(state.not_bound(&"u1".into()), Followup::Nothing);
    assert_eq!(used(&state, CARD), 0);
    reserve(&mut state, "u2", 1).unwrap();
}

#[test]
fn a_doubtful_bind_keeps_its_room_until_a_read_after_the_deadline() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let until = now + Duration::from_secs(3);
    reserve(&mut state, "u1", 8).unwrap();
    assert_eq!(state.unknown(&uid, until), Followup::ReadAfter(until));
    assert!(!state.to_be_cleared(&uid, now));

    let read = state.begin_read(&uid, now);
    state.finish_read(&uid, read, Some(pending("u1", 8)));
    assert_eq!(used(&state, CARD), 8, "the request may still take effect");

    assert!(state.to_be_cleared(&uid, until));
    let read = state.begin_read(&uid, until);
    state.finish_read(&uid, read, Some(pending("u1", 8)));
    assert_eq!(used(&state, CARD), 0);
    assert!(state.pod("u1").is_some(), "the pod itself still waits");
}

#[test]
fn a_doubtful_bind_that_took_effect_is_settled_by_a_read() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let record = reserve(&mut state, "u1", 8).unwrap().record;
    state.unknown(&uid, now);
    let read = state.begin_read(&uid, now);
    state.finish_read(&uid, read, Some(running("u1", 8, &record)));
    assert_eq!(state.booked(&uid), Some(Booked::Settled));
}

#[test]
fn a_second_bind_refused_does_not_free_what_the_first_may_still_take() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let first = reserve(&mut state, "u1", 8).unwrap().record;
    state.unknown(&uid, now);
    let second = reserve(&mut state, "u1", 8).unwrap().record;
    assert_eq!(
        first, second,
        "whichever takes effect, it is the same booking"
    );
    assert!(!state.to_be_cleared(&uid, now), "a bind is under way");
    assert_eq!(state.not_bound(&uid), Followup::ReadAfter(now));
    assert_eq!(used(&state, CARD), 8);
}

#[test]
fn a_later_doubt_prolongs_an_earlier_one() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let later = now + Duration::from_secs(3);
    reserve(&mut state, "u1", 8).unwrap();
    state.unknown(&uid, later);
    reserve(&mut state, "u1", 8).unwrap();
    assert_eq!(state.unknown(&uid, now), Followup::ReadAfter(later));
    assert!(!state.to_be_cleared(&uid, now));
}

/// Another leader may have given the room away in between, because the bind had not taken effect.
#[test]
fn a_doubtful_bind_of_an_earlier_term_is_not_sent_again_but_looked_up() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let ask = pending("u1", 8).ask.unwrap().unwrap();
    reserve(&mut state, "u1", 8).unwrap();
    state.unknown(&uid, now);
    let mut again = |term| {
        let node = NODE.into();
        state.reserve(&named("u1"), &ask, &node, term, AliyunUnit::GiB, 1)
    };
    let refused = again(TERM + 1).unwrap_err().to_string();
    assert_eq!(refused, "the pod is being bound to n1");
    assert!(again(TERM).is_ok(), "in its own term it may be");

    assert_eq!(state.unknown(&uid, now), Followup::ReadAfter(now));
    let read = state.begin_read(&uid, now);
    state.finish_read(&uid, read, Some(pending("u1", 8)));
    let node = NODE.into();
    let reserved = state.reserve(&named("u1"), &ask, &node, TERM + 1, AliyunUnit::GiB, 1);
    assert!(reserved.is_ok(), "{reserved:?}");
}
