//! Requests that arrive long after their sender has given up: they must not take effect any more.

use axum::http::StatusCode;

use crate::api::{Following, node_of, until};
use crate::cluster::node;
use crate::replicas::{Replica, TIMING};

#[tokio::test]
async fn a_bind_that_arrives_after_its_card_was_given_to_another_pod_does_not_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    let leader = Replica::leader(&cluster, "a").await;
    let first = cluster.create("first", 16).await;
    let second = cluster.create("second", 16).await;
    let late = leader.line.keep("/first/binding");
    let error = leader.bind(&first, "n1").await;
    assert_ne!(error, "", "nobody has heard of it");
    until("the card is given to the other pod", async || {
        leader.bind(&second, "n1").await.is_empty()
    })
    .await;

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(node_of(&cluster.read("second").await), Some("n1"));
    assert_eq!(
        node_of(&cluster.read("first").await),
        None,
        "two records on one card"
    );

    leader.line.keep_no_more();
    cluster.delete("second").await;
    until("the first pod is bound as any other", async || {
        leader.bind(&first, "n1").await.is_empty()
    })
    .await;
}

/// Kubernetes also answers a bind with 409 if its database did not answer in time, and may still carry it out later.
#[tokio::test]
async fn a_bind_that_was_answered_with_a_conflict_and_arrives_late_does_not_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    let leader = Replica::leader(&cluster, "a").await;
    let first = cluster.create("first", 16).await;
    let second = cluster.create("second", 16).await;
    let late = leader.line.refuse("/first/binding");
    assert_ne!(leader.bind(&first, "n1").await, "");
    leader.line.keep_no_more();
    assert_eq!(leader.bind(&second, "n1").await, "");

    for answer in late.deliver().await {
        assert_eq!(answer, StatusCode::CONFLICT);
    }
    assert_eq!(
        node_of(&cluster.read("first").await),
        None,
        "two records on one card"
    );
}

#[tokio::test]
async fn a_bind_of_a_deposed_leader_that_arrives_late_does_not_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    let old = Replica::deposable(&cluster, "a").await;
    let new = Replica::start(&cluster, "b", TIMING);
    let first = cluster.create("first", 16).await;
    let second = cluster.create("second", 16).await;
    let late = old.line.keep("/first/binding");
    let lost = {
        let (extender, pod) = (old.extender.clone(), first.clone());
        tokio::spawn(async move { crate::api::bind(&extender, &pod, "n1").await })
    };
    late.kept(1).await;
    old.line.cut();
    assert_ne!(lost.await.unwrap(), "", "nobody has heard of it");
    new.until_ready().await;
    assert_eq!(new.bind(&second, "n1").await, "");

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(
        node_of(&cluster.read("first").await),
        None,
        "two records on one card"
    );
}

#[tokio::test]
async fn a_bind_of_a_killed_predecessor_that_arrives_late_does_not_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    let killed = Replica::alone(&cluster);
    killed.until_ready().await;
    let first = cluster.create("first", 16).await;
    let second = cluster.create("second", 16).await;
    let late = killed.line.keep("/first/binding");
    let lost = {
        let (extender, pod) = (killed.extender.clone(), first.clone());
        tokio::spawn(async move { crate::api::bind(&extender, &pod, "n1").await })
    };
    late.kept(1).await;
    killed.line.cut();
    lost.abort();
    killed.tasks.shutdown().cancel();
    let started = Replica::alone(&cluster);
    started.until_ready().await;
    assert_eq!(started.bind(&second, "n1").await, "");

    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(
        node_of(&cluster.read("first").await),
        None,
        "two records on one card"
    );
}
