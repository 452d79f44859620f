//! Binds whose answer is lost: never booked twice, never leaked.

use gpushare_apiserver::{Answer, On, Times, Verb};
use gpushare_daemon::tasks::TaskFailure;

use crate::api::{Following, bind, binds, node_of, until};
use crate::cluster::node;

#[tokio::test]
async fn a_bind_whose_answer_was_lost_is_found_to_have_succeeded() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    cluster.server.faults().cut_after(binds(), Times::Next(1));
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(cluster.sent_binds(), 1);
    cluster.until_bookings(&[("confirmed", 1)]).await;
}

#[tokio::test]
async fn a_bind_lost_on_the_way_holds_the_room_until_it_can_have_no_effect() {
    for cut in [true, false] {
        let cluster = Following::start(&[node("n1", &[8]), node("n2", &[8])]).await;
        let (lost, other) = (
            cluster.create("lost", 8).await,
            cluster.create("other", 8).await,
        );
        if cut {
            cluster.server.faults().cut_before(binds(), Times::Next(1));
        } else {
            let failure = Answer::InternalError;
            cluster
                .server
                .faults()
                .answer(binds(), Times::Next(1), failure);
        }
        let error = cluster.bind(&lost, "n1").await;
        assert!(error.contains("not known yet"), "{error}");
        assert!(
            cluster.bind(&other, "n1").await.contains("no card has"),
            "the room is held"
        );

        let result = cluster.filter(&lost, &["n1", "n2"]).await;
        assert_eq!(result.node_names.as_deref(), Some(&["n1".to_owned()][..]));
        let result = cluster.filter(&lost, &["n2"]).await;
        assert!(
            result.error.contains("not settled yet"),
            "to be retried: {result:?}"
        );

        until("the room is free again", async || {
            cluster.bind(&other, "n1").await.is_empty()
        })
        .await;
        let result = cluster.filter(&lost, &["n1", "n2"]).await;
        assert_eq!(result.node_names.as_deref(), Some(&["n2".to_owned()][..]));
        assert_eq!(cluster.bind(&lost, "n2").await, "");
        cluster.until_bookings(&[("confirmed", 2)]).await;
    }
}

#[tokio::test]
async fn a_bind_tried_again_after_a_lost_answer_books_once() {
    let cluster = Following::start(&[node("n1", &[8, 8])]).await;
    let pod = cluster.create("p", 8).await;
    // The read that would tell the outcome fails too.
    let reads = On::any().verb(Verb::Get).resource("pods");
    let blind = cluster.server.faults().cut_before(reads, Times::Always);
    let hidden = cluster.hide_pods().await;
    cluster.server.faults().cut_after(binds(), Times::Next(1));
    let error = cluster.bind(&pod, "n1").await;
    assert!(error.contains("not known yet"), "{error}");
    blind.clear();
    assert_eq!(
        cluster.bind(&pod, "n1").await,
        "",
        "the second bind finds the first"
    );
    assert_eq!(cluster.bookings().await["settled"], 1);
    hidden.release();
    cluster.until_bookings(&[("confirmed", 1)]).await;
}

#[tokio::test]
async fn a_bind_goes_on_when_the_scheduler_hangs_up() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let gate = cluster.server.faults().hold_before(binds());
    let call = {
        let (extender, pod) = (cluster.extender.clone(), pod.clone());
        tokio::spawn(async move { bind(&extender, &pod, "n1").await })
    };
    gate.reached(1).await;
    let result = cluster.filter(&pod, &["n1"]).await;
    assert_eq!(result.error, "gpushare: the pod is being bound to n1");
    call.abort();
    gate.release();
    cluster.until_bookings(&[("confirmed", 1)]).await;
    assert_eq!(node_of(&cluster.read("p").await), Some("n1"));
}

#[tokio::test]
async fn shutdown_waits_for_a_bind_under_way() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 8).await;
    let gate = cluster.server.faults().hold_before(binds());
    let call = {
        let (extender, pod) = (cluster.extender.clone(), pod.clone());
        tokio::spawn(async move { bind(&extender, &pod, "n1").await })
    };
    gate.reached(1).await;
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
