use std::sync::Barrier;
use std::time::{Duration, Instant};

use gpushare_core::gpu::{self, AliyunUnit, MEMORY};
use gpushare_core::ledger::State as Booked;
use gpushare_core::names;
use gpushare_core::pack::Policy;
use gpushare_kube::bind::Outcome;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use parking_lot::RwLock;
use serde_json::{Value, json};

use super::*;

const CARD: &str = "GPU-a";
pub(super) const NODE: &str = "n1";
const GIB: u64 = 1024;
const TERM: u64 = 1;

/// A state that knows one node with cards of the given GiB, and no pods.
pub(super) fn state(cards: &[(&str, u64)]) -> State {
    let mut state = State::new(gpu::classes(), Policy::default(), Bells::default());
    state.replace_nodes(vec![node(NODE, cards)]);
    state.replace_pods(Vec::new(), Vec::new());
    state
}

pub(super) fn node(name: &str, cards: &[(&str, u64)]) -> NodeFacts {
    let cards = cards.iter().zip(0..).map(|((id, gib), index)| Card {
        id: (*id).into(),
        class: gpu::CLASS.into(),
        index,
        model: "test".into(),
        capacity: gpushare_core::Amounts::of(MEMORY, gib * GIB),
        healthy: true,
    });
    NodeFacts {
        name: name.into(),
        cards: cards.collect(),
        allocatable: Host::default(),
    }
}

/// A pod of `gib` GiB; bound if it has a node, with a record if it has one.
fn pod(uid: &str, gib: u64, node: Option<&str>, record: Option<&str>, phase: &str) -> PodFacts {
    let annotations = record.map_or(Value::Null, |record| json!({names::ALLOCATION: record}));
    let pod = json!({
        "metadata": {"name": format!("pod-{uid}"), "namespace": "team", "uid": uid,
            "annotations": annotations},
        "spec": {"nodeName": node, "containers": [
            {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": gib.to_string()}}}]},
        "status": {"phase": phase},
    });
    let pod: slim::Pod = serde_json::from_value(pod).unwrap();
    PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB))
}

pub(super) fn pending(uid: &str, gib: u64) -> PodFacts {
    pod(uid, gib, None, None, "Pending")
}

pub(super) fn running(uid: &str, gib: u64, record: &str) -> PodFacts {
    pod(uid, gib, Some(NODE), Some(record), "Running")
}

/// The pod appears in the watch, and a bind of it begins.
pub(super) fn reserve(state: &mut State, uid: &str, gib: u64) -> Result<Reservation, String> {
    reserve_on(state, uid, gib, NODE)
}

pub(super) fn reserve_on(
    state: &mut State,
    uid: &str,
    gib: u64,
    node: &str,
) -> Result<Reservation, String> {
    let facts = pending(uid, gib);
    let ask = facts.ask.clone().unwrap().unwrap();
    state.apply_pod(facts);
    let reserved = state.reserve(&named(uid), &ask, &node.into(), TERM, AliyunUnit::GiB, 1);
    reserved.map_err(|why| why.to_string())
}

pub(super) fn named(uid: &str) -> PodRef {
    PodRef {
        uid: uid.into(),
        namespace: "team".to_owned(),
        name: format!("pod-{uid}"),
    }
}

impl State {
    pub(super) fn bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Bound, Instant::now())
    }

    fn not_bound(&mut self, pod: &PodUid) -> Followup {
        self.conclude(pod, &Outcome::Refused(String::new()), Instant::now())
    }

    fn unknown(&mut self, pod: &PodUid, until: Instant) -> Followup {
        self.conclude(pod, &Outcome::Unknown(String::new()), until)
    }
}

fn used(state: &State, card: &str) -> u64 {
    let view = state.ledger().node(NODE).unwrap().card(card).unwrap();
    view.used.get(MEMORY) / GIB
}

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

#[test]
fn what_the_watch_shows_first_outlives_the_answer_to_the_bind() {
    let mut state = state(&[(CARD, 8)]);
    let uid = "u1".into();
    let record = reserve(&mut state, "u1", 3).unwrap().record;
    state.apply_pod(running("u1", 3, &record));
    assert_eq!(state.not_bound(&uid), Followup::Nothing);
    assert_eq!(state.unknown(&uid, Instant::now()), Followup::Nothing);
    let overtaken = Outcome::Overtaken(String::new());
    state.conclude(&uid, &overtaken, Instant::now());
    assert_eq!(state.booked(&uid), Some(Booked::Confirmed));

    let uid = "u2".into();
    reserve(&mut state, "u2", 3).unwrap();
    state.end_pod(&uid);
    assert_eq!(state.bound(&uid), Followup::Nothing);
    assert_eq!(
        used(&state, CARD),
        3,
        "a pod deleted during its bind holds nothing"
    );
}

#[test]
fn an_answer_older_than_the_pods_end_does_not_book_it_again() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let record = reserve(&mut state, "u1", 3).unwrap().record;
    let read = state.begin_read(&uid, now);
    state.end_pod(&uid);
    let verdict = state.finish_read(&uid, read, Some(running("u1", 3, &record)));
    assert!(matches!(verdict, Verdict::Stale), "{verdict:?}");
    assert_eq!(used(&state, CARD), 0);

    let read = state.begin_read(&uid, now);
    state.replace_pods(Vec::new(), Vec::new());
    let verdict = state.finish_read(&uid, read, Some(running("u1", 3, &record)));
    assert!(matches!(verdict, Verdict::Stale), "{verdict:?}");

    let read = state.begin_read(&uid, now);
    let verdict = state.finish_read(&uid, read, None);
    assert!(matches!(verdict, Verdict::Gone), "{verdict:?}");
    assert!(state.reads.is_empty());
}

#[test]
fn a_pod_recreated_under_its_name_is_another_pod() {
    let mut state = state(&[(CARD, 8)]);
    reserve(&mut state, "u1", 3).unwrap();
    let read = state.begin_read(&"u1".into(), Instant::now());
    state.finish_read(&"u1".into(), read, Some(pending("u2", 3)));
    assert_eq!(used(&state, CARD), 0);
}

#[test]
fn a_list_ends_what_is_gone_and_asks_about_what_it_cannot_know() {
    let mut state = state(&[(CARD, 16)]);
    let gone = reserve(&mut state, "gone", 1).unwrap().record;
    state.apply_pod(running("gone", 1, &gone));
    let stays = reserve(&mut state, "stays", 2).unwrap().record;
    state.apply_pod(running("stays", 2, &stays));
    reserve(&mut state, "settled", 3).unwrap();
    state.bound(&"settled".into());
    reserve(&mut state, "under-way", 4).unwrap();

    let to_read = state.replace_pods(vec![running("stays", 2, &stays)], Vec::new());
    let to_read: Vec<_> = to_read.iter().map(|pod| pod.uid.as_str()).collect();
    assert_eq!(to_read, ["settled"]);
    assert_eq!(used(&state, CARD), 2 + 3 + 4);
    assert_eq!(state.bound(&"under-way".into()), Followup::ReadNow);
    for uid in ["settled", "under-way"] {
        let uid = uid.into();
        let read = state.begin_read(&uid, Instant::now());
        state.finish_read(&uid, read, None);
    }
    assert_eq!(used(&state, CARD), 2);
    assert!(state.attempts.is_empty());
}

#[test]
fn a_list_older_than_a_read_does_not_end_what_the_read_showed() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let record = reserve(&mut state, "u1", 8).unwrap().record;
    state.unknown(&uid, now);
    let older = vec![pending("u1", 8)];
    let read = state.begin_read(&uid, now);
    state.finish_read(&uid, read, Some(running("u1", 8, &record)));

    let to_read = state.replace_pods(older, Vec::new());
    assert_eq!(used(&state, CARD), 8, "it runs");
    assert_eq!(to_read, [named("u1")], "it may have ended since");
    state.apply_pod(running("u1", 8, &record));
    assert_eq!(state.booked(&uid), Some(Booked::Confirmed));
}

#[test]
fn a_pod_missing_from_a_list_is_read_after_its_bind_whatever_came_of_that() {
    for outcome in [
        Outcome::Bound,
        Outcome::Refused(String::new()),
        Outcome::Overtaken(String::new()),
    ] {
        let mut state = state(&[(CARD, 8)]);
        let (uid, now) = ("u1".into(), Instant::now());
        reserve(&mut state, "u1", 8).unwrap();
        state.replace_pods(Vec::new(), Vec::new());
        let followup = state.conclude(&uid, &outcome, now);
        assert_eq!(followup, Followup::ReadNow, "{outcome:?}");
        let read = state.begin_read(&uid, now);
        state.finish_read(&uid, read, None);
        assert!(state.ledger().is_empty() && state.pods.is_empty());
    }
}

#[test]
fn a_doubt_is_cleared_also_if_the_pod_was_gone_when_its_bind_began() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let ask = pending("u1", 8).ask.unwrap().unwrap();
    let reserved = state.reserve(&named("u1"), &ask, &NODE.into(), TERM, AliyunUnit::GiB, 1);
    assert!(reserved.is_ok());
    state.unknown(&uid, now);
    assert_eq!(
        state.replace_pods(Vec::new(), Vec::new()),
        [],
        "its own read follows"
    );
    assert!(state.to_be_cleared(&uid, now));
    let read = state.begin_read(&uid, now);
    state.finish_read(&uid, read, None);
    assert!(state.ledger().is_empty() && state.pods.is_empty());
}

#[test]
fn a_pod_that_was_gone_when_its_bind_began_is_read_after_it_and_after_a_list() {
    let mut state = state(&[(CARD, 8)]);
    let ask = pending("u1", 8).ask.unwrap().unwrap();
    let reserved = state.reserve(&named("u1"), &ask, &NODE.into(), TERM, AliyunUnit::GiB, 1);
    assert!(reserved.is_ok());
    assert_eq!(state.bound(&"u1".into()), Followup::ReadNow);
    let to_read = state.replace_pods(Vec::new(), Vec::new());
    assert_eq!(to_read, [named("u1")]);
}

#[test]
fn reads_of_one_pod_at_once_do_not_keep_each_other_from_an_answer() {
    let mut state = state(&[(CARD, 8)]);
    let (uid, now) = ("u1".into(), Instant::now());
    let old = state.begin_read(&uid, now);
    state.replace_pods(vec![pending("u1", 8)], Vec::new());
    let newer = state.begin_read(&uid, now);
    let verdict = state.finish_read(&uid, old, Some(pending("u1", 8)));
    assert!(matches!(verdict, Verdict::Stale), "{verdict:?}");
    let again = state.begin_read(&uid, now);
    for read in [newer, again] {
        let verdict = state.finish_read(&uid, read, Some(pending("u1", 8)));
        assert!(matches!(verdict, Verdict::Found(_)), "{verdict:?}");
    }
    assert!(state.reads.is_empty());
}

#[test]
fn a_record_changed_after_the_bind_moves_nothing() {
    let mut state = state(&[("GPU-big", 16), (CARD, 8)]);
    let record = reserve(&mut state, "u1", 3).unwrap().record;
    state.bound(&"u1".into());
    let forged = record.replace(CARD, "GPU-big");
    for changed in [
        running("u1", 3, &forged),
        pod("u1", 3, Some(NODE), None, "Running"),
    ] {
        state.apply_pod(changed.clone());
        assert_eq!((used(&state, CARD), used(&state, "GPU-big")), (3, 0));
        state.replace_pods(vec![changed], Vec::new());
        assert_eq!((used(&state, CARD), used(&state, "GPU-big")), (3, 0));
    }
}

#[test]
fn a_bound_pod_without_a_believable_record_is_not_booked() {
    let mut state = state(&[(CARD, 8)]);
    state.apply_pod(pod("u1", 3, Some(NODE), None, "Pending"));
    state.apply_pod(running("u2", 3, "{}"));
    let foreign = reserve(&mut state, "u3", 3).unwrap().record;
    state.not_bound(&"u3".into());
    state.apply_pod(running("u4", 3, &foreign));
    assert_eq!(used(&state, CARD), 0);
}

#[test]
fn a_node_that_goes_and_returns_keeps_the_bookings_of_its_pods() {
    let mut state = state(&[(CARD, 8)]);
    let record = reserve(&mut state, "u1", 3).unwrap().record;
    state.apply_pod(running("u1", 3, &record));
    state.replace_nodes(vec![node("n2", &[("GPU-z", 8)])]);
    assert!(!state.has_node(NODE));
    assert!(reserve(&mut state, "u2", 1).is_err());
    state.apply_node(node(NODE, &[(CARD, 8)]));
    assert_eq!(used(&state, CARD), 3);
    state.delete_node(NODE);
    assert!(!state.has_node(NODE));
}

#[test]
fn nothing_is_ready_before_both_lists() {
    let mut state = State::new(gpu::classes(), Policy::default(), Bells::default());
    assert!(state.ready().unwrap_err().contains("nodes"));
    state.replace_nodes(Vec::new());
    assert!(state.ready().unwrap_err().contains("pods"));
    state.replace_pods(Vec::new(), Vec::new());
    assert_eq!(state.ready(), Ok(()));
}

/// Binds, refusals, doubts, watch events and reads from many threads at once: a card is never past its
/// size, and when all is over nothing is held.
#[test]
fn many_threads_never_book_past_the_card() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 200;
    let shared = RwLock::new(state(&[(CARD, 8)]));
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
                            let now = Instant::now();
                            shared.write().unknown(&uid, now);
                            let read = shared.write().begin_read(&uid, now);
                            shared
                                .write()
                                .finish_read(&uid, read, Some(pending(&name, gib)));
                        }
                    }
                    assert!(used(&shared.read(), CARD) <= 8);
                    shared.write().end_pod(&uid);
                }
            });
        }
    });
    let state = shared.into_inner();
    assert!(bound.into_inner() > 0, "some binds must have succeeded");
    assert_eq!(used(&state, CARD), 0);
    assert!(state.ledger().is_empty() && state.pods.is_empty());
    assert!(state.attempts.is_empty() && state.reads.is_empty());
}
