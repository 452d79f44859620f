//! Binds whose answer is lost: never booked twice, never leaked.

use gpushare_apiserver::{Answer, Gate, Times};
use gpushare_core::names;
use gpushare_daemon::tasks::TaskFailure;
use gpushare_testkit::cluster::Objects;
use gpushare_testkit::{assert_contains, until};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use crate::api::{Following, binds, fences, node_of};
use crate::asked::Asked;
use crate::cluster::node;

/// A pod that fills n1, known to the extender as it was before it is changed while the watch shows nothing.
async fn known_and_hidden() -> (Following, Pod, Gate) {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    until("the pod is known", async || {
        cluster.filter(&pod, &["n1"]).await.node_names.is_some()
    })
    .await;
    let hidden = cluster.hide_pods().await;
    (cluster, pod, hidden)
}

#[tokio::test]
async fn a_bind_whose_answer_was_lost_is_found_to_have_succeeded() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    cluster.faults().cut_after(binds(), Times::Next(1));
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(cluster.sent_binds(), 1);
    cluster.until_confirmed(1).await;
}

#[tokio::test]
async fn a_bind_lost_on_the_way_gives_the_room_back_once_it_can_have_no_effect() {
    for cut in [true, false] {
        let cluster = Following::start(&[node("n1", &[8])]).await;
        let [lost, other] = cluster.create_both(["lost", "other"], 8).await;
        let (faults, once) = (cluster.faults(), Times::Next(1));
        if cut {
            faults.cut_before(binds(), once);
        } else {
            faults.answer(binds(), once, Answer::InternalError);
        }
        assert_ne!(cluster.bind(&lost, "n1").await, "");
        assert!(cluster.bookings().await.is_empty());
        assert_eq!(cluster.bind(&other, "n1").await, "");
        cluster.until_confirmed(1).await;
    }
}

#[tokio::test]
async fn a_bind_in_doubt_holds_its_room_while_nothing_can_be_written_on_the_pod() {
    let cluster = Following::start(&[node("n1", &[8]), node("n2", &[8])]).await;
    let [lost, other] = cluster.create_both(["lost", "other"], 8).await;
    let blind = cluster.faults().cut_before(fences(), Times::Always);
    cluster.faults().cut_before(binds(), Times::Next(1));
    cluster.bind_fails(&lost, "n1", "not known yet").await;
    // The room is held.
    cluster.bind_fails(&other, "n1", "no card has").await;
    for node in ["n1", "n2"] {
        // An error is retried.
        let result = cluster.filter(&lost, &[node]).await;
        assert_contains(&result.error, "not settled yet");
        cluster.bind_fails(&lost, node, "not settled yet").await;
    }

    blind.clear();
    cluster.until_bound(&other, "n1").await;
    let result = cluster.filter(&lost, &["n1", "n2"]).await;
    assert_eq!(result.node_names.as_deref(), Some(&["n2".to_owned()][..]));
    assert_eq!(cluster.bind(&lost, "n2").await, "");
    cluster.until_confirmed(2).await;
}

#[tokio::test]
async fn a_bind_in_doubt_that_took_effect_is_found_by_the_fence_and_booked_once() {
    let cluster = Following::start(&[node("n1", &[8, 8])]).await;
    let pod = cluster.create("p", 8).await;
    let blind = cluster.faults().cut_before(fences(), Times::Always);
    let hidden = cluster.hide_pods().await;
    cluster.faults().cut_after(binds(), Times::Next(1));
    cluster.bind_fails(&pod, "n1", "not known yet").await;
    blind.clear();
    cluster.until_bookings(&[("settled", 1)]).await;
    let error = cluster.bind(&pod, "n1").await;
    assert_eq!(error, "gpushare: the pod is bound to n1 already");
    hidden.release();
    cluster.until_confirmed(1).await;
    assert_eq!(cluster.sent_binds(), 1);
}

/// Other clients change pods all the time, and the watch may lag.
#[tokio::test]
async fn a_pod_that_was_changed_since_the_watch_showed_it_is_bound_all_the_same() {
    let (cluster, pod, hidden) = known_and_hidden().await;
    cluster.set_phase("p", "Pending").await;
    let labelled = json!({"metadata": {"labels": {"app": "x"}}});
    cluster.pods().merge("p", labelled).await;
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(cluster.sent_binds(), 2, "the first named an older version");
    assert_eq!(node_of(&cluster.read("p").await), Some("n1"));
    hidden.release();
    cluster.until_confirmed(1).await;
}

/// The decision is made again for what the pod asks for now, not for what the watch showed.
#[tokio::test]
async fn a_request_that_was_changed_since_the_watch_showed_it_is_not_bound_as_it_was() {
    let (cluster, pod, hidden) = known_and_hidden().await;
    let elsewhere = Some("GPU-of-another-node");
    cluster.annotate("p", names::CARD_IDS, elsewhere).await;
    cluster.bind_fails(&pod, "n1", "selectors exclude").await;
    assert_eq!(node_of(&cluster.read("p").await), None);
    assert!(cluster.bookings().await.is_empty());
    hidden.release();
}

#[tokio::test]
async fn a_bind_goes_on_when_the_scheduler_hangs_up() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let (gate, call) = cluster.hold_bind(&cluster, &pod).await;
    let result = cluster.filter(&pod, &["n1"]).await;
    assert_eq!(result.error, "gpushare: the pod is being bound to n1");
    call.abort();
    gate.release();
    cluster.until_confirmed(1).await;
    assert_eq!(node_of(&cluster.read("p").await), Some("n1"));
}

#[tokio::test]
async fn shutdown_waits_for_a_bind_under_way() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let (gate, call) = cluster.hold_bind(&cluster, &pod).await;
    cluster.tasks.shutdown().cancel();
    let late = cluster.create("late", 1).await;
    assert_eq!(cluster.bind(&late, "n1").await, "gpushare: shutting down");
    let grace = std::time::Duration::from_mins(1);
    let finished = tokio::spawn(cluster.tasks.clone().finished(grace));
    gate.release();
    assert_eq!(call.await.unwrap(), "");
    assert_eq!(finished.await.unwrap(), Ok::<(), TaskFailure>(()));
    assert_eq!(node_of(&cluster.read("p").await), Some("n1"));
}
