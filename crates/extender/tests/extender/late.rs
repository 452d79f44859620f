//! Requests that arrive long after their sender has given up: they must not take effect any more.

use axum::http::StatusCode;

use crate::api::{Following, node_of};
use crate::asked::Asked;
use crate::cluster::node;
use crate::replicas::{Lingering, Replica, contested, led};

const BIND: &str = "/first/binding";

/// The bind of the first pod arrives after the second pod got its card, and takes no effect.
async fn arrives_in_vain(bind: &Lingering, cluster: &Following) {
    let answers = bind.deliver().await;
    let conflicts = answers.iter().all(|answer| *answer == StatusCode::CONFLICT);
    assert!(conflicts && !answers.is_empty(), "{answers:?}");
    let first = cluster.read("first").await;
    assert_eq!(node_of(&first), None, "two records on one card");
    assert_eq!(node_of(&cluster.read("second").await), Some("n1"));
}

#[tokio::test]
async fn a_bind_that_arrives_after_its_card_was_given_to_another_pod_does_not_take_effect() {
    let (cluster, leader) = led(&[16]).await;
    let [first, second] = cluster.create_both(["first", "second"], 16).await;
    let late = leader.line.keep(BIND);
    let error = leader.bind(&first, "n1").await;
    assert_ne!(error, "", "nobody has heard of it");
    leader.until_bound(&second, "n1").await;

    arrives_in_vain(&late, &cluster).await;

    leader.line.keep_no_more();
    cluster.delete("second").await;
    leader.until_bound(&first, "n1").await;
}

/// Kubernetes also answers a bind with 409 if its database did not answer in time, and may still carry it out later.
#[tokio::test]
async fn a_bind_that_was_answered_with_a_conflict_and_arrives_late_does_not_take_effect() {
    let (cluster, leader) = led(&[16]).await;
    let [first, second] = cluster.create_both(["first", "second"], 16).await;
    let late = leader.line.refuse(BIND);
    assert_ne!(leader.bind(&first, "n1").await, "");
    leader.line.keep_no_more();
    assert_eq!(leader.bind(&second, "n1").await, "");

    arrives_in_vain(&late, &cluster).await;
}

#[tokio::test]
async fn a_bind_of_a_deposed_leader_that_arrives_late_does_not_take_effect() {
    let (cluster, old, new) = contested(&[16]).await;
    let [first, second] = cluster.create_both(["first", "second"], 16).await;
    let late = old.line.keep(BIND);
    let lost = old.begin_bind(&first);
    late.kept(1).await;
    old.line.cut();
    assert_ne!(lost.await.unwrap(), "", "nobody has heard of it");
    new.until_ready().await;
    assert_eq!(new.bind(&second, "n1").await, "");

    arrives_in_vain(&late, &cluster).await;
}

#[tokio::test]
async fn a_bind_of_a_killed_predecessor_that_arrives_late_does_not_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    let killed = Replica::alone(&cluster);
    killed.until_ready().await;
    let [first, second] = cluster.create_both(["first", "second"], 16).await;
    let late = killed.line.keep(BIND);
    let lost = killed.begin_bind(&first);
    late.kept(1).await;
    killed.line.cut();
    lost.abort();
    killed.tasks.shutdown().cancel();
    let started = Replica::alone(&cluster);
    started.until_ready().await;
    assert_eq!(started.bind(&second, "n1").await, "");

    arrives_in_vain(&late, &cluster).await;
}
