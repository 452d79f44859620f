//! Binds that the API server answers.

use gpushare_apiserver::{Answer, Times};
use gpushare_core::names;
use gpushare_testkit::assert_contains;
use gpushare_testkit::cluster::Objects;
use kube::api::{DeleteParams, PostParams};
use kube::core::Status;
use serde_json::json;

use crate::api::{Following, binds, card_of, node_of};
use crate::asked::Asked;
use crate::cluster::{get, node};

#[tokio::test]
async fn a_bind_is_one_write_with_node_record_and_the_predecessors_annotations() {
    let cluster = Following::start(&[node("n1", &[16, 8])]).await;
    let pod = cluster.create("p", 3).await;
    cluster.server.requests().reset();
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(cluster.server.requests().writes(), 1);

    let bound = cluster.read("p").await;
    assert_eq!(node_of(&bound), Some("n1"));
    assert_eq!(card_of(&bound), "GPU-n1-1", "the tighter of two cards");
    let annotations = bound.metadata.annotations.unwrap();
    assert_eq!(annotations[names::aliyun::IDX], "1");
    assert_eq!(annotations[names::aliyun::POD], "3");
    assert_eq!(annotations[names::aliyun::DEV], "8");
    assert_eq!(annotations[names::aliyun::ASSIGNED], "true");
    assert!(
        annotations[names::aliyun::ASSUME_TIME]
            .parse::<i128>()
            .unwrap()
            > 0
    );
    cluster.until_confirmed(1).await;
}

#[tokio::test]
async fn pods_of_one_size_fill_one_card_before_the_next() {
    let cluster = Following::start(&[node("n1", &[8, 8])]).await;
    for (name, card) in [("a", 0), ("b", 0), ("c", 1)] {
        cluster.bound(name, 4, "n1").await;
        assert_eq!(card_of(&cluster.read(name).await), format!("GPU-n1-{card}"));
    }
    let (_, inspect) = get(&cluster.extender, "/gpushare-scheduler/inspect/n1").await;
    assert_contains(&inspect, r#""totalGPU":16,"usedGPU":12"#);
    assert_contains(&inspect, r#""name":"a","namespace":"default""#);
}

#[tokio::test]
async fn a_node_without_room_is_refused_before_the_api_server_sees_it() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 9).await;
    cluster.bind_fails(&pod, "n1", "no card has").await;
    assert_eq!(cluster.sent_binds(), 0);
    assert!(cluster.bookings().await.is_empty());
}

#[tokio::test]
async fn refusals_of_the_api_server_free_the_card_at_once_and_are_not_repeated() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let busy = Answer::TooManyRequests {
        retry_after_seconds: 1,
    };
    for (answer, expected) in [(Answer::Forbidden, "403"), (busy, "429")] {
        cluster.server.requests().reset();
        let faults = cluster.faults();
        faults.answer(binds(), Times::Next(1), answer);
        cluster.bind_fails(&pod, "n1", expected).await;
        assert_eq!(cluster.sent_binds(), 1);
        assert!(cluster.bookings().await.is_empty());
    }
    assert_eq!(cluster.bind(&pod, "n1").await, "");
}

#[tokio::test]
async fn a_bind_is_sent_again_after_a_conflict_that_the_pod_does_not_explain() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let faults = cluster.faults();
    let conflict = faults.answer(binds(), Times::Next(1), Answer::Conflict);
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(conflict.hits(), 1);
    assert_eq!(cluster.sent_binds(), 2);
    cluster.until_confirmed(1).await;
}

#[tokio::test]
async fn a_pod_of_another_uid_is_not_bound() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let mut pod = cluster.create("p", 8).await;
    pod.metadata.uid = Some("an-earlier-pod".to_owned());
    let error = cluster.bind(&pod, "n1").await;
    assert_eq!(error, "gpushare: the pod no longer exists");
    assert_eq!(node_of(&cluster.read("p").await), None);
    assert!(cluster.bookings().await.is_empty());
}

#[tokio::test]
async fn a_pod_is_bound_once() {
    let cluster = Following::start(&[node("n1", &[8]), node("n2", &[8])]).await;
    let pod = cluster.bound("p", 8, "n1").await;
    let error = cluster.bind(&pod, "n2").await;
    assert_eq!(error, "gpushare: the pod is bound to n1 already");
    assert_eq!(cluster.sent_binds(), 1);
    cluster.until_confirmed(1).await;
}

#[tokio::test]
async fn a_pod_that_someone_else_bound_holds_nothing_of_ours() {
    let cluster = Following::start(&[node("n1", &[8]), node("n2", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let hidden = cluster.hide_pods().await;
    let theirs = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n2"}});
    let (pods, params) = (cluster.pods(), PostParams::default());
    let sent = pods.create_subresource::<_, Status>("binding", "p", &params, &theirs);
    sent.await.unwrap();
    let error = cluster.bind(&pod, "n1").await;
    assert_eq!(error, "gpushare: the pod is bound to n2 already");
    assert!(cluster.bookings().await.is_empty());
    hidden.release();
}

#[tokio::test]
async fn a_pod_that_asks_for_no_card_is_bound_plainly() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let plain = json!({"metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "c", "image": "none"}]}});
    let plain = cluster.pods().add(plain).await;
    let error = cluster.bind(&plain, "nowhere").await;
    assert_eq!(error, "gpushare: node nowhere does not exist");
    assert_eq!(cluster.bind(&plain, "n1").await, "");
    let bound = cluster.read("plain").await;
    assert_eq!(node_of(&bound), Some("n1"));
    assert!(bound.metadata.annotations.unwrap_or_default().is_empty());
    assert!(cluster.bookings().await.is_empty());
}

#[tokio::test]
async fn an_invalid_pod_is_not_bound() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let invalid = json!({"metadata": {"name": "bad"}, "spec": {"containers": [
        {"name": "c", "image": "none", "resources": {"limits": {"gpushare.io/gpu-mem": "512"}}}]}});
    let invalid = cluster.pods().add(invalid).await;
    cluster
        .bind_fails(&invalid, "n1", "gpushare.io/gpu: 1")
        .await;
    assert_eq!(cluster.sent_binds(), 0);
}

#[tokio::test]
async fn two_pods_bound_at_once_cannot_share_the_last_room() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let [a, b] = cluster.create_both(["a", "b"], 5).await;
    let (first, second) = tokio::join!(cluster.bind(&a, "n1"), cluster.bind(&b, "n1"));
    let mut errors = vec![first, second];
    errors.retain(|error| !error.is_empty());
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_contains(&errors[0], "no card has");
    cluster.until_confirmed(1).await;
}

#[tokio::test]
async fn memory_is_free_when_the_containers_have_ended_and_not_before() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("first", 8, "n1").await;
    cluster.set_phase("first", "Running").await;
    let (pods, params) = (cluster.pods(), DeleteParams::default());
    pods.delete("first", &params).await.unwrap();
    let first = cluster.read("first").await;
    assert!(first.metadata.deletion_timestamp.is_some());
    let second = cluster.create("second", 8).await;
    cluster.until_confirmed(1).await;
    // The first pod still shuts down.
    cluster.bind_fails(&second, "n1", "no card has").await;
    cluster.delete("first").await;
    cluster.until_bound(&second, "n1").await;

    cluster.set_phase("second", "Succeeded").await;
    cluster.until_bookings(&[]).await;
}
