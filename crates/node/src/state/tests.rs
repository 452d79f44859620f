use gpushare_core::{gpu, names};

use super::*;
use crate::testing::{PodMaker, card};

const GIB: u64 = 1024;

fn state() -> NodeState {
    NodeState::new(gpu::classes(), BTreeMap::new())
}

fn pod(uid: &str, gib: u64) -> PodMaker {
    PodMaker::new(uid).app(gib).on("GPU-0")
}

/// The next life of the agent, with the record that it finds in the file of pod `a`.
fn next_life(record: &PodFacts) -> NodeState {
    let earlier = Earlier {
        name: "default/a".to_owned(),
        record: record.record().unwrap().to_owned(),
    };
    NodeState::new(gpu::classes(), BTreeMap::from([("a".into(), earlier)]))
}

/// What the kernel shows of the pods that are leaving.
fn look(state: &NodeState, alive: &[&str]) {
    let alive = alive.iter().map(|pod| PodUid::from(*pod)).collect();
    state.note_processes(&state.leaving(), &alive);
}

/// The pods that are published as holding something.
fn held(state: &NodeState) -> Option<Vec<String>> {
    let held = state.held().borrow().clone();
    held.map(|pods| pods.iter().map(|held| held.name.to_string()).collect())
}

#[test]
fn what_an_earlier_life_let_on_counts_in_the_next() {
    let cards = [card(0, 8 * GIB)];
    let state = next_life(&pod("a", 6).facts());
    state.reset(vec![pod("a", 6).facts(), pod("b", 4).facts()]);
    state.admit(&pod("b", 4).bound(), &cards).unwrap_err();
    state.admit(&pod("c", 2).bound(), &cards).unwrap();
}

#[test]
fn a_pod_that_an_earlier_life_let_on_counts_whatever_its_tenant_annotates() {
    let cards = [card(0, 8 * GIB)];
    let annotated = pod("a", 6).annotated(names::POLICY, "x");
    let state = next_life(&annotated.clone().facts());
    state.reset(vec![annotated.clone().facts()]);
    state.admit(&pod("b", 4).bound(), &cards).unwrap_err();
    state.admit(&annotated.bound(), &cards).unwrap();
}

#[test]
fn whole_cards_that_an_earlier_life_let_on_are_nobody_elses_in_the_next() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB), card(2, 8 * GIB)];
    let whole = PodMaker::new("a").asking("app", &[(names::GPU, 2)]);
    let whole = whole.on_all(&[&cards[2], &cards[0]]);
    let state = next_life(&whole.clone().facts());
    state.reset(vec![whole.clone().facts()]);
    state.admit(&pod("b", 1).bound(), &cards).unwrap_err();
    let elsewhere = PodMaker::new("c").app(1).on("GPU-1");
    state.admit(&elsewhere.bound(), &cards).unwrap();
    state.admit(&whole.bound(), &cards).unwrap();
}

#[test]
fn a_record_changed_while_the_agent_was_away_is_refused() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB)];
    let state = next_life(&pod("a", 6).facts());
    let moved = PodMaker::new("a").app(6).on("GPU-1");
    state.reset(vec![moved.clone().facts()]);
    let refusal = state.admit(&moved.bound(), &cards).unwrap_err();
    assert_eq!(refusal, GuardRefusal::Changed);
}

#[test]
fn a_pod_that_left_while_the_agent_was_away_holds_its_card_until_its_processes_have_ended() {
    let cards = [card(0, 8 * GIB)];
    let state = next_life(&pod("a", 6).facts());
    assert_eq!(held(&state), None, "nothing is known yet");
    state.reset(vec![]);
    assert_eq!(held(&state), None, "nobody has looked yet");
    state.admit(&pod("b", 8).bound(), &cards).unwrap_err();
    assert!(!state.is_missing(&"a".into()));
    look(&state, &["a"]);
    let refusal = state.admit(&pod("b", 8).bound(), &cards).unwrap_err();
    let message = refusal.to_string();
    assert!(message.contains("containers of pod default/a"), "{message}");
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
    state.admit(&pod("c", 2).bound(), &cards).unwrap();
    look(&state, &[]);
    assert!(state.is_missing(&"a".into()));
    assert_eq!(held(&state), Some(vec![]));
    state.admit(&pod("b", 6).bound(), &cards).unwrap();
}

#[test]
fn a_pod_whose_object_is_gone_keeps_its_card_until_its_containers_have_ended() {
    let cards = [card(0, 8 * GIB)];
    let state = state();
    state.reset(vec![pod("a", 6).facts()]);
    state.admit(&pod("a", 6).bound(), &cards).unwrap();
    state.delete(&"a".into());
    state.admit(&pod("b", 6).bound(), &cards).unwrap_err();
    look(&state, &["a"]);
    state.admit(&pod("b", 6).bound(), &cards).unwrap_err();
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
    look(&state, &[]);
    state.admit(&pod("b", 6).bound(), &cards).unwrap();
    assert_eq!(held(&state), Some(vec![]));
}

#[test]
fn an_ended_pod_frees_its_card_when_its_processes_have_ended_and_a_running_one_does_not() {
    let cards = [card(0, 8 * GIB)];
    let state = state();
    state.reset(vec![pod("a", 8).facts()]);
    state.admit(&pod("a", 8).bound(), &cards).unwrap();
    state.apply(pod("a", 8).phase("Running").facts());
    assert!(state.leaving().is_empty(), "nothing is to be looked for");
    state.admit(&pod("b", 8).bound(), &cards).unwrap_err();
    // A phase can be written by others than the kubelet, while the node is cut off.
    state.apply(pod("a", 8).phase("Failed").facts());
    look(&state, &["a"]);
    state.admit(&pod("b", 8).bound(), &cards).unwrap_err();
    look(&state, &[]);
    state.admit(&pod("b", 8).bound(), &cards).unwrap();
}

#[test]
fn a_pod_that_is_shown_again_is_not_ended_by_an_older_look_at_its_processes() {
    let cards = [card(0, 8 * GIB)];
    let state = state();
    state.reset(vec![pod("a", 8).facts()]);
    state.admit(&pod("a", 8).bound(), &cards).unwrap();
    state.delete(&"a".into());
    let looked_for = state.leaving();
    state.apply(pod("a", 8).facts());
    state.note_processes(&looked_for, &BTreeSet::new());
    state.admit(&pod("b", 8).bound(), &cards).unwrap_err();
}

#[test]
fn pods_leave_by_deletion_and_by_missing_from_a_list() {
    let state = state();
    assert!(!state.is_missing(&"a".into()), "nothing is known yet");
    state.reset(vec![pod("a", 1).facts(), pod("b", 1).facts()]);
    assert!(!state.is_missing(&"a".into()));
    state.delete(&"a".into());
    assert!(state.is_missing(&"a".into()), "it held nothing");
    state.reset(vec![]);
    assert!(state.is_missing(&"b".into()));
    assert_eq!(state.take_gone(), BTreeSet::from(["a".into(), "b".into()]));
    assert!(state.take_gone().is_empty(), "each is told once");
}

#[tokio::test]
async fn waiting_for_a_pod_ends_when_the_watch_shows_it() {
    let state = Arc::new(state());
    let waiting = tokio::spawn({
        let state = state.clone();
        async move { state.wait_for(&"a".into(), Duration::from_mins(1)).await }
    });
    tokio::task::yield_now().await;
    state.apply(pod("a", 1).facts());
    tokio::task::yield_now().await;
    assert!(
        !waiting.is_finished(),
        "before a list, others may be missing"
    );
    state.reset(vec![pod("a", 1).facts()]);
    assert!(waiting.await.unwrap().is_some());
}

#[tokio::test]
async fn waiting_for_a_pod_that_never_comes_ends_too() {
    let patience = Duration::from_millis(1);
    assert!(state().wait_for(&"a".into(), patience).await.is_none());
}
