//! Pods that were refused are woken when room appears: as many as fit, best first, and no more.

use gpushare_apiserver::{Answer, On, Times, Verb};
use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Pod;

use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::node;
use crate::replicas::{Replica, TIMING, contested};

fn pod_patches() -> On {
    On::any().verb(Verb::Patch).resource("pods")
}

fn is_woken(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.is_some_and(|all| all.contains_key(names::WOKEN))
}

impl Following {
    /// The names of the pods that were woken, in order.
    async fn woken(&self) -> Vec<String> {
        let pods = self.list_pods().await;
        let woken = pods.into_iter().filter(is_woken);
        woken.filter_map(|pod| pod.metadata.name).collect()
    }

    async fn until_woken(&self, expected: &[&str]) {
        until(&format!("{expected:?} are woken"), async || {
            self.woken().await == expected
        })
        .await;
    }

    fn patches(&self) -> usize {
        self.server.requests().count(Verb::Patch, "pods")
    }

    /// Creates a pod that n1 refuses.
    async fn waiting(&self, name: &str, gib: u64) {
        let pod = self.create(name, gib).await;
        self.refuses(&pod, &["n1"]).await;
    }

    /// The node publishes these cards instead of those that it had.
    async fn publish(&self, name: &str, cards: &[u64]) {
        let mut grown = node(name, cards);
        let published = grown["metadata"]["annotations"].take();
        self.nodes().annotate(name, published).await;
    }
}

/// A node with one card, which a pod fills.
async fn full(gib: u64) -> Following {
    let cluster = Following::start(&[node("n1", &[gib])]).await;
    cluster.bound("holder", gib, "n1").await;
    cluster
}

#[tokio::test]
async fn one_slot_wakes_one_of_many_and_the_next_slot_the_next() {
    let cluster = full(8).await;
    for number in 0..30 {
        cluster.waiting(&format!("waits-{number:02}"), 8).await;
    }
    cluster.until_metric("waiting_pods", 30).await;
    assert_eq!(cluster.patches(), 0);

    let mut holder = "holder".to_owned();
    for round in 1..=3 {
        cluster.delete(&holder).await;
        let other = |name: &String| *name != holder;
        let next = until("another one is woken", async || {
            cluster.woken().await.into_iter().find(other)
        })
        .await;
        let pod = cluster.read(&next).await;
        assert!(cluster.filter(&pod, &["n1"]).await.refused().is_empty());
        assert_eq!(cluster.bind(&pod, "n1").await, "");
        cluster.until_confirmed(1).await;
        assert_eq!(cluster.patches(), round, "one slot, one patch");
        holder = next;
    }
    let woken = cluster.metric("wakes_total{outcome=\"woken\"}").await;
    assert_eq!(woken, Some(3));
    assert_eq!(cluster.metric("waiting_pods").await, Some(27));
}

#[tokio::test]
async fn a_pod_that_ends_a_card_that_grows_and_a_node_that_appears_wake_pods() {
    let cluster = full(4).await;
    for (name, gib) in [("a", 3), ("b", 6), ("c", 16)] {
        cluster.waiting(name, gib).await;
    }

    cluster.set_phase("holder", "Succeeded").await;
    cluster.until_woken(&["a"]).await;

    cluster.publish("n1", &[4, 8]).await;
    cluster.until_woken(&["a", "b"]).await;

    cluster.nodes().add(node("n2", &[16])).await;
    cluster.until_woken(&["a", "b", "c"]).await;
    assert_eq!(cluster.patches(), 3);
}

#[tokio::test]
async fn the_highest_priority_comes_first_and_then_the_oldest() {
    let cluster = full(8).await;
    let mut urgent = cluster.create("urgent", 8).await;
    urgent.spec.as_mut().unwrap().priority = Some(7);
    cluster.waiting("a-plain-one", 8).await;
    cluster.refuses(&urgent, &["n1"]).await;
    cluster.until_metric("waiting_pods", 2).await;
    cluster.delete("holder").await;
    cluster.until_woken(&["urgent"]).await;
}

#[tokio::test]
async fn a_wake_that_fails_is_repeated() {
    let cluster = full(8).await;
    cluster.waiting("waits", 8).await;
    let fault = cluster
        .faults()
        .answer(pod_patches(), Times::Next(2), Answer::Unavailable);
    cluster.delete("holder").await;
    cluster.until_woken(&["waits"]).await;
    assert_eq!(fault.hits(), 2);
}

/// A new extender does not know what its predecessor refused.
#[tokio::test]
async fn after_a_start_pending_pods_are_woken_if_they_fit() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    cluster.create("fits", 6).await;
    cluster.create("fits-not-beside", 6).await;
    cluster.create("too-large", 16).await;
    let cluster = cluster.following().await;
    let woken = until("somebody is woken", async || {
        let woken = cluster.woken().await;
        (!woken.is_empty()).then_some(woken)
    })
    .await;
    assert!(
        woken == ["fits"] || woken == ["fits-not-beside"],
        "{woken:?}"
    );
    let pod = cluster.read(&woken[0]).await;
    assert_eq!(cluster.bind(&pod, "n1").await, "");
    assert_eq!(cluster.patches(), 1);
}

/// The patch names the pod's uid, so another pod of the same name is left alone.
#[tokio::test]
async fn a_pod_that_has_taken_the_name_of_another_is_not_touched() {
    let cluster = full(8).await;
    cluster.waiting("waits", 8).await;
    cluster.until_metric("waiting_pods", 1).await;
    let on_its_way = cluster.faults().hold_before(pod_patches());
    cluster.delete("holder").await;
    on_its_way.reached(1).await;
    cluster.delete("waits").await;
    cluster.create("waits", 4).await;
    on_its_way.release();
    let too_late = "wakes_total{outcome=\"gone\"}";
    cluster.until_metric(too_late, 1).await;
    assert!(!is_woken(&cluster.read("waits").await));
}

impl Replica {
    /// Creates pods, each of which fills a card, and asks about them while there is no room.
    async fn keep_waiting(&self, cluster: &Following, names: &[String]) {
        for name in names {
            let pod = cluster.create(name, 8).await;
            self.refuses(&pod, &["n1"]).await;
        }
        let all = u64::try_from(names.len()).unwrap();
        self.until_metric("waiting_pods", all).await;
    }
}

#[tokio::test]
async fn only_the_leader_wakes_pods() {
    let (cluster, first, second) = contested(&[8]).await;
    let holder = cluster.create("holder", 8).await;
    assert_eq!(first.bind(&holder, "n1").await, "");
    let waits = ["waits".to_owned()];
    first.keep_waiting(&cluster, &waits).await;

    // The first still sees room appear, but no longer leads.
    first.line.cut_leases();
    first.until_not_ready().await;
    cluster.delete("holder").await;
    first.until_bookings(&[]).await;
    // The other can lead only long after the first would have acted.
    second.until_ready().await;
    cluster.until_woken(&["waits"]).await;
    assert_eq!(first.line.patches(), 0);
    assert_eq!(second.line.patches(), 1);
}

#[tokio::test]
async fn a_leader_deposed_while_it_wakes_pods_leaves_the_rest_to_the_next() {
    // This many are woken at the same time.
    const AT_ONCE: usize = 8;
    let cards = [8; 12];
    let cluster = Following::prepare(&[node("n1", &[4])]).await;
    let first = Replica::deposable(&cluster, "a").await;
    let names: Vec<String> = (0..cards.len()).map(|n| format!("waits-{n:02}")).collect();
    first.keep_waiting(&cluster, &names).await;

    let gate = cluster.faults().hold_before(pod_patches());
    cluster.publish("n1", &cards).await;
    gate.reached(AT_ONCE).await;
    first.line.cut_leases();
    first.until_not_ready().await;
    gate.release();
    let second = Replica::start(&cluster, "b", TIMING);
    second.until_ready().await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    cluster.until_woken(&names).await;
    assert_eq!(first.line.patches(), AT_ONCE);
}
