//! One of several replicas leads: how that begins, how it ends, and what the others do.

use std::time::Duration;

use axum::http::StatusCode;
use gpushare_apiserver::{Answer, On, Times, Verb};
use kube::api::DeleteParams;
use serde_json::json;

use crate::api::{Following, fences, node_of, pod_watches, until};
use crate::asked::Asked;
use crate::cluster::{get, node, post};
use crate::replicas::{
    LEASE, PATIENT, Replica, TIMING, contested, give_back, hold, holder, lease, lease_api, leases,
    led,
};

#[tokio::test]
async fn only_the_leader_is_ready_and_the_others_refer_to_it() {
    let (cluster, leader) = led(&[8]).await;
    let other = Replica::start(&cluster, "b", PATIENT);
    let pod = cluster.create("p", 4).await;
    let asked = other.extender();
    until("the other has listed the nodes", async || {
        let (status, _) = get(asked, "/gpushare-scheduler/inspect/n1").await;
        status == 200
    })
    .await;

    let (status, reason) = get(asked, "/readyz").await;
    assert_eq!(status, 503);
    assert!(reason.contains("does not lead"), "{reason}");
    assert_eq!(get(asked, "/healthz").await.0, 200);

    let filtered = other.filter(&pod, &["n1"]).await;
    assert!(filtered.error.contains("held by a"), "{filtered:?}");
    assert!(filtered.node_names.unwrap_or_default().is_empty());
    let args = json!({"Pod": pod, "NodeNames": ["n1"]});
    let (status, _) = post(asked, "prioritize", args.to_string()).await;
    assert_eq!(status, 503);
    other.bind_fails(&pod, "n1", "held by a").await;
    assert_eq!(cluster.sent_binds(), 0);

    assert!(leader.fits(&pod, "n1").await);
    assert_eq!(leader.bind(&pod, "n1").await, "");
    assert_eq!(leader.metric("is_leader").await, Some(1));
    assert_eq!(leader.metric("leader_transitions_total").await, Some(1));
    assert_eq!(other.metric("is_leader").await, Some(0));
}

#[tokio::test]
async fn of_two_that_reach_for_the_same_lease_one_gets_it() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    give_back(&cluster).await;
    let gate = cluster.faults().hold_before(leases(Verb::Update));
    let replicas = ["a", "b"].map(|name| Replica::start(&cluster, name, PATIENT));
    gate.reached(2).await;
    gate.release();
    let ready = async || {
        let [a, b] = &replicas;
        [a.is_ready().await, b.is_ready().await]
    };
    until("one is ready", async || ready().await.contains(&true)).await;
    assert_eq!(ready().await.iter().filter(|ready| **ready).count(), 1);
}

#[tokio::test]
async fn a_leader_without_api_server_stops_and_goes_on_when_it_is_back() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let leader = Replica::deposable(&cluster, "a").await;
    let before = cluster.create("before", 3).await;
    assert_eq!(leader.bind(&before, "n1").await, "");
    let down = cluster
        .faults()
        .answer(leases(Verb::Get), Times::Always, Answer::Unavailable);
    leader.until_not_ready().await;
    let late = cluster.create("late", 3).await;
    leader.bind_fails(&late, "n1", "does not lead").await;
    assert_eq!(cluster.sent_binds(), 1, "that of before");

    down.clear();
    leader.until_ready().await;
    assert_eq!(leader.bind(&late, "n1").await, "");
    let full = cluster.create("full", 3).await;
    leader.bind_fails(&full, "n1", "no card has").await;
    assert_eq!(leader.metric("leader_transitions_total").await, Some(2));
}

#[tokio::test]
async fn a_follower_takes_over_with_the_same_books() {
    let (cluster, first, second) = contested(&[8]).await;
    let pod = cluster.create("p", 5).await;
    assert_eq!(first.bind(&pod, "n1").await, "");
    first.line.cut();
    second.until_ready().await;
    assert!(!first.is_ready().await);
    let (fits, not) = (
        cluster.create("fits", 3).await,
        cluster.create("not", 1).await,
    );
    assert_eq!(second.bind(&fits, "n1").await, "");
    second.bind_fails(&not, "n1", "no card has").await;

    first.line.mend();
    until("the first knows who leads", async || {
        first.bind(&not, "n1").await.contains("held by b")
    })
    .await;
    assert!(second.is_ready().await);
}

#[tokio::test]
async fn times_written_in_the_lease_do_not_matter() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let held = |year: u64, beat: u64| {
        let time = format!("{year}-01-02T03:04:05.{beat:06}Z");
        json!({
            "holderIdentity": "other", "leaseTransitions": 1,
            "leaseDurationSeconds": TIMING.duration / 1000, "renewTime": time,
        })
    };
    hold(&cluster, held(1999, 0)).await;
    let replica = Replica::start(&cluster, "a", TIMING);
    // The renewal time in the lease is long past, but the lease is renewed.
    let beat = TIMING.retry;
    for number in 1..=2 * TIMING.duration / beat {
        tokio::time::sleep(Duration::from_millis(beat)).await;
        hold(&cluster, held(1999, number)).await;
        assert!(!replica.is_ready().await);
    }
    // The renewal time is far in the future, but the lease is no longer renewed.
    hold(&cluster, held(2999, 0)).await;
    replica.until_ready().await;
}

#[tokio::test]
async fn a_deleted_lease_makes_the_leader_stop_and_is_led_by_someone_again() {
    let (cluster, leader, other) = contested(&[8]).await;
    let params = DeleteParams::default();
    lease_api(&cluster).delete(LEASE, &params).await.unwrap();
    leader.until_not_ready().await;
    let holder = holder(&cluster).await;
    assert_eq!(holder, None, "nobody leads by a new lease yet");
    until("someone leads", async || {
        leader.is_ready().await || other.is_ready().await
    })
    .await;
    let pod = cluster.create("p", 4).await;
    let answers = [leader.bind(&pod, "n1").await, other.bind(&pod, "n1").await];
    assert!(answers.contains(&String::new()), "{answers:?}");
}

#[tokio::test]
async fn a_process_of_the_same_name_does_not_inherit_the_lease() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let first = Replica::deposable(&cluster, "same").await;
    let reads = || {
        cluster
            .server
            .requests()
            .count(Verb::Get, "leases.coordination.k8s.io")
    };
    let second = Replica::start(&cluster, "same", TIMING);
    let begin = reads();
    until("both have looked at the lease often", async || {
        reads() > begin + 20
    })
    .await;
    assert!(first.is_ready().await);
    assert!(!second.is_ready().await);
    first.line.cut();
    second.until_ready().await;
    assert!(!first.is_ready().await);
}

#[tokio::test]
async fn a_leader_that_ends_finishes_its_binds_and_gives_the_lease_back() {
    // The leader's lease lasts far longer than the test waits.
    let (cluster, first) = led(&[8]).await;
    let second = Replica::start(&cluster, "b", PATIENT);
    let pod = cluster.create("p", 8).await;
    let (gate, call) = cluster.hold_bind(&first, &pod).await;
    first.tasks.shutdown().cancel();
    assert!(!first.is_ready().await);
    assert_eq!(holder(&cluster).await.as_deref(), Some("a"));
    gate.release();
    assert_eq!(call.await.unwrap(), "");
    second.until_ready().await;
    let grace = Duration::from_mins(1);
    assert!(first.tasks.clone().finished(grace).await.is_ok());

    let spec = lease(&cluster).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("b"));
    assert_eq!(spec.lease_transitions, Some(3));
    let late = cluster.create("late", 1).await;
    second.bind_fails(&late, "n1", "no card has").await;
}

#[tokio::test]
async fn a_bind_in_doubt_of_a_leader_that_ends_is_cleared_by_the_next_one() {
    let (cluster, first) = led(&[8]).await;
    let [pod, other] = cluster.create_both(["p", "other"], 8).await;
    let late = first.line.keep("/p/binding");
    let blind = cluster.faults().cut_before(fences(), Times::Always);
    first.bind_fails(&pod, "n1", "not known yet").await;
    first.tasks.shutdown().cancel();
    let second = Replica::start(&cluster, "b", PATIENT);
    second.until_ready().await;
    blind.clear();
    assert_eq!(second.bind(&other, "n1").await, "");
    assert_eq!(late.deliver().await, [StatusCode::CONFLICT]);
    assert_eq!(node_of(&cluster.read("p").await), None);
}

#[tokio::test]
async fn binds_stay_closed_while_an_earlier_one_may_still_take_effect() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let waits = cluster.create("waits", 8).await;
    let blind = cluster
        .faults()
        .answer(fences(), Times::Always, Answer::Unavailable);
    let replica = Replica::leader(&cluster, "a").await;
    let call = replica.begin_bind(&waits);
    until("the fence was refused", async || blind.hits() > 1).await;
    assert_eq!(cluster.sent_binds(), 0);
    blind.clear();
    assert_eq!(call.await.unwrap(), "");
    assert_eq!(cluster.sent_binds(), 1);
}

/// The old leader's last bind takes effect after it can no longer renew its lease, and no watch shows
/// the bind to the new leader.
#[tokio::test]
async fn what_the_old_leader_bound_last_is_known_to_the_new_one() {
    let (cluster, old, new) = contested(&[8]).await;
    let [theirs, ours] = cluster.create_both(["theirs", "ours"], 8).await;
    let blind = cluster.faults().hold_before(pod_watches());
    cluster.faults().cut_watches();
    blind.reached(2).await;

    let (held, call) = cluster.hold_bind(&old, &theirs).await;
    old.line.cut();
    held.release();
    until("their bind has taken effect", async || {
        node_of(&cluster.read("theirs").await).is_some()
    })
    .await;
    call.await.unwrap();

    new.until_ready().await;
    new.bind_fails(&ours, "n1", "the most is 0").await;
    assert_eq!(cluster.sent_binds(), 1, "theirs only");
    blind.release();
}

#[tokio::test]
async fn a_leader_deposed_while_a_bind_is_being_prepared_does_not_send_it() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let leader = Replica::deposable(&cluster, "a").await;
    // A pod that no watch has shown is read before its bind.
    let hidden = cluster.hide_pods().await;
    let pod = cluster.create("p", 8).await;
    let reads = On::any().verb(Verb::Get).resource("pods");
    let gate = cluster.faults().hold_before(reads);
    let call = leader.begin_bind(&pod);
    gate.reached(1).await;
    let down = cluster
        .faults()
        .cut_before(leases(Verb::Get), Times::Always);
    leader.until_not_ready().await;
    gate.release();
    let refusal = call.await.unwrap();
    assert!(refusal.contains("does not lead"), "{refusal}");
    assert_eq!(cluster.sent_binds(), 0);

    // Nothing is left of the bind: another pod gets the room in the next term.
    down.clear();
    leader.until_ready().await;
    let other = cluster.create("other", 8).await;
    assert_eq!(leader.bind(&other, "n1").await, "");
    hidden.release();
}
