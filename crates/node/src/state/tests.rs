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

/// The state after a restart of the agent, with the record that it finds in the file of pod `a`.
fn next_life(record: &PodFacts) -> NodeState {
    let earlier = EarlierAdmission {
        name: "default/a".to_owned(),
        record: record.record().unwrap().to_owned(),
    };
    NodeState::new(gpu::classes(), BTreeMap::from([("a".into(), earlier)]))
}

fn admit(state: &NodeState, pod: &PodMaker, cards: &[Card]) -> Result<(), GuardRefusal> {
    let name = full_name(&pod.clone().facts());
    state.admit(&name, &pod.clone().bound(), cards)
}

/// A state in which the watch shows pod `a` with this much memory, and a card to which it was admitted.
fn with_a(gib: u64) -> (NodeState, [Card; 1]) {
    let (state, cards) = (state(), [card(0, 8 * GIB)]);
    state.reset(vec![pod("a", gib).facts()]);
    admit(&state, &pod("a", gib), &cards).unwrap();
    (state, cards)
}

/// As [`with_a`], but the watch has not shown the pod.
fn with_unseen_a() -> (NodeState, [Card; 1]) {
    let (state, cards) = (state(), [card(0, 8 * GIB)]);
    state.reset(vec![]);
    admit(&state, &pod("a", 6), &cards).unwrap();
    (state, cards)
}

/// Notes which of the pods that are leaving the kernel shows as alive.
fn look(state: &NodeState, alive: &[&str]) {
    let alive = alive.iter().map(|pod| PodUid::from(*pod)).collect();
    state.note_processes(&state.leaving(), &alive);
}

/// The processes of pod `a`, whose object is gone, end: nothing of it is left.
fn end_a(state: &NodeState) {
    look(state, &[]);
    assert!(state.is_missing(&"a".into()));
    assert_eq!(held(state), Some(vec![]));
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
    admit(&state, &pod("b", 4), &cards).unwrap_err();
    admit(&state, &pod("c", 2), &cards).unwrap();
}

#[test]
fn a_pod_that_an_earlier_life_let_on_counts_whatever_its_tenant_annotates() {
    let cards = [card(0, 8 * GIB)];
    let annotated = pod("a", 6).annotated(names::POLICY, "x");
    let state = next_life(&annotated.clone().facts());
    state.reset(vec![annotated.clone().facts()]);
    admit(&state, &pod("b", 4), &cards).unwrap_err();
    admit(&state, &annotated, &cards).unwrap();
}

#[test]
fn whole_cards_that_an_earlier_life_let_on_are_nobody_elses_in_the_next() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB), card(2, 8 * GIB)];
    let whole = PodMaker::new("a").asking("app", &[(names::GPU, 2)]);
    let whole = whole.on_all(&[&cards[2], &cards[0]]);
    let state = next_life(&whole.clone().facts());
    state.reset(vec![whole.clone().facts()]);
    admit(&state, &pod("b", 1), &cards).unwrap_err();
    let elsewhere = PodMaker::new("c").app(1).on("GPU-1");
    admit(&state, &elsewhere, &cards).unwrap();
    admit(&state, &whole, &cards).unwrap();
}

#[test]
fn a_record_changed_while_the_agent_was_away_is_refused() {
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB)];
    let state = next_life(&pod("a", 6).facts());
    let moved = PodMaker::new("a").app(6).on("GPU-1");
    state.reset(vec![moved.clone().facts()]);
    let refusal = admit(&state, &moved, &cards).unwrap_err();
    assert_eq!(refusal, GuardRefusal::Changed);
}

#[test]
fn a_pod_that_left_while_the_agent_was_away_holds_its_card_until_its_processes_have_ended() {
    let cards = [card(0, 8 * GIB)];
    let state = next_life(&pod("a", 6).facts());
    assert_eq!(held(&state), None, "nothing is known yet");
    state.reset(vec![]);
    assert_eq!(held(&state), None, "nobody has looked yet");
    admit(&state, &pod("b", 8), &cards).unwrap_err();
    assert!(!state.is_missing(&"a".into()));
    look(&state, &["a"]);
    let refusal = admit(&state, &pod("b", 8), &cards).unwrap_err();
    let message = refusal.to_string();
    assert!(message.contains("containers of pod default/a"), "{message}");
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
    admit(&state, &pod("c", 2), &cards).unwrap();
    end_a(&state);
    admit(&state, &pod("b", 6), &cards).unwrap();
}

#[test]
fn a_pod_whose_object_is_gone_keeps_its_card_until_its_containers_have_ended() {
    let (state, cards) = with_a(6);
    state.delete(&"a".into());
    admit(&state, &pod("b", 6), &cards).unwrap_err();
    look(&state, &["a"]);
    admit(&state, &pod("b", 6), &cards).unwrap_err();
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
    look(&state, &[]);
    admit(&state, &pod("b", 6), &cards).unwrap();
    assert_eq!(held(&state), Some(vec![]));
}

#[test]
fn an_ended_pod_frees_its_card_when_its_processes_have_ended_and_a_running_one_does_not() {
    let (state, cards) = with_a(8);
    state.apply(pod("a", 8).phase("Running").facts());
    assert!(state.leaving().is_empty(), "nothing is to be looked for");
    admit(&state, &pod("b", 8), &cards).unwrap_err();
    // Clients other than the kubelet can write the phase, while the node is cut off.
    state.apply(pod("a", 8).phase("Failed").facts());
    look(&state, &["a"]);
    admit(&state, &pod("b", 8), &cards).unwrap_err();
    look(&state, &[]);
    admit(&state, &pod("b", 8), &cards).unwrap();
}

#[test]
fn a_pod_that_is_shown_again_is_not_ended_by_an_older_look_at_its_processes() {
    let (state, cards) = with_a(8);
    state.delete(&"a".into());
    let leaving = state.leaving();
    state.apply(pod("a", 8).facts());
    state.note_processes(&leaving, &BTreeSet::new());
    admit(&state, &pod("b", 8), &cards).unwrap_err();
}

#[test]
fn a_pod_that_the_watch_has_not_shown_holds_its_card_until_its_processes_have_ended() {
    let (state, cards) = with_unseen_a();
    assert!(!state.is_missing(&"a".into()), "its files stay");
    look(&state, &["a"]);
    assert!(!state.is_missing(&"a".into()));
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
    // It came and went while the watch was broken.
    state.reset(vec![]);
    admit(&state, &pod("b", 6), &cards).unwrap_err();
    end_a(&state);
    admit(&state, &pod("b", 6), &cards).unwrap();
}

#[test]
fn a_pod_that_the_watch_shows_late_is_as_any_other() {
    let (state, _) = with_unseen_a();
    look(&state, &["a"]);
    state.apply(pod("a", 6).facts());
    assert!(state.leaving().is_empty(), "nothing is to be looked for");
    assert_eq!(held(&state), Some(vec![]));
    state.delete(&"a".into());
    look(&state, &["a"]);
    assert_eq!(held(&state), Some(vec!["default/a".to_owned()]));
}

#[test]
fn a_pod_that_is_over_before_its_start_is_let_on_frees_its_card_with_its_sandbox() {
    let cards = [card(0, 8 * GIB)];
    let state = state();
    state.reset(vec![pod("gone", 6).facts()]);
    state.delete(&"gone".into());
    admit(&state, &pod("gone", 6), &cards).unwrap();
    look(&state, &["gone"]);
    admit(&state, &pod("ended", 6), &cards).unwrap_err();
    look(&state, &[]);

    state.apply(pod("ended", 6).phase("Failed").facts());
    admit(&state, &pod("ended", 6), &cards).unwrap();
    look(&state, &["ended"]);
    admit(&state, &pod("heir", 6), &cards).unwrap_err();
    look(&state, &[]);
    admit(&state, &pod("heir", 6), &cards).unwrap();
}

#[test]
fn a_start_is_not_ended_by_a_look_that_began_before_it_was_let_on() {
    let (state, cards) = with_unseen_a();
    // The pod's sandbox ends and is recreated for its next start.
    let leaving = state.leaving();
    admit(&state, &pod("a", 6), &cards).unwrap();
    state.note_processes(&leaving, &BTreeSet::new());
    admit(&state, &pod("b", 6), &cards).unwrap_err();
    look(&state, &[]);
    admit(&state, &pod("b", 6), &cards).unwrap();
}

#[test]
fn a_pod_whose_processes_ended_before_its_object_went_is_forgotten_with_it() {
    let (state, _) = with_a(6);
    let cards = [card(0, 8 * GIB), card(1, 8 * GIB)];
    state.apply(pod("a", 6).phase("Succeeded").facts());
    look(&state, &[]);
    let elsewhere = PodMaker::new("a").app(6).on("GPU-1");
    let refusal = admit(&state, &elsewhere, &cards).unwrap_err();
    assert_eq!(refusal, GuardRefusal::Changed, "its record is remembered");
    state.delete(&"a".into());
    assert!(state.is_missing(&"a".into()));
    admit(&state, &elsewhere, &cards).unwrap();
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
