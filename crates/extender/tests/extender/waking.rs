//! Pods that were refused are woken when room appears: as many as fit, best first, and no more.

use gpushare_apiserver::{Answer, On, Times, Verb};
use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::api::{Following, until};
use crate::cluster::{call, get, node};
use crate::kubernetes::ExtenderFilterResult;
use crate::replicas::{Replica, TIMING};

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
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        let woken = pods.items.into_iter().filter(is_woken);
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

    /// The value of a metric; 0 if it is missing.
    async fn metric(&self, name: &str) -> u64 {
        let (_, metrics) = get(&self.extender, "/metrics").await;
        let line = metrics.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Creates a pod that is refused everywhere.
    async fn waiting(&self, name: &str, gib: u64, nodes: &[&str]) -> Pod {
        let pod = self.create(name, gib).await;
        self.refuse(&pod, nodes).await;
        pod
    }

    async fn refuse(&self, pod: &Pod, nodes: &[&str]) {
        let result = self.filter(pod, nodes).await;
        assert_eq!(result.refused().len(), nodes.len());
    }

    async fn bound(&self, name: &str, gib: u64, node: &str) {
        let pod = self.create(name, gib).await;
        assert_eq!(self.bind(&pod, node).await, "");
    }
}

#[tokio::test]
async fn one_slot_wakes_one_of_many_and_the_next_slot_the_next() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("holder", 8, "n1").await;
    for number in 0..30 {
        cluster
            .waiting(&format!("waits-{number:02}"), 8, &["n1"])
            .await;
    }
    until("all are known to wait", async || {
        cluster.metric("gpushare_extender_waiting_pods").await == 30
    })
    .await;
    assert_eq!(cluster.patches(), 0);

    let mut holder = "holder".to_owned();
    for round in 1..=3 {
        cluster.delete(&holder).await;
        let other = |name: &String| *name != holder;
        until("another one is woken", async || {
            cluster.woken().await.iter().any(other)
        })
        .await;
        let woken = cluster.woken().await;
        let next = woken.into_iter().find(other).unwrap();
        let pod = cluster.read(&next).await;
        assert!(cluster.filter(&pod, &["n1"]).await.refused().is_empty());
        assert_eq!(cluster.bind(&pod, "n1").await, "");
        cluster.until_bookings(&[("confirmed", 1)]).await;
        assert_eq!(cluster.patches(), round, "one slot, one patch");
        holder = next;
    }
    let woken = "gpushare_extender_wakes_total{outcome=\"woken\"}";
    assert_eq!(cluster.metric(woken).await, 3);
    assert_eq!(cluster.metric("gpushare_extender_waiting_pods").await, 27);
}

#[tokio::test]
async fn a_pod_that_ends_a_card_that_grows_and_a_node_that_appears_wake_pods() {
    let cluster = Following::start(&[node("n1", &[4])]).await;
    cluster.bound("holder", 4, "n1").await;
    cluster.waiting("a", 3, &["n1"]).await;
    cluster.waiting("b", 6, &["n1"]).await;
    cluster.waiting("c", 16, &["n1"]).await;

    cluster.set_phase("holder", "Succeeded").await;
    cluster.until_woken(&["a"]).await;

    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let grown = node("n1", &[4, 8]);
    let published = grown["metadata"]["annotations"].clone();
    nodes.annotate("n1", published).await;
    cluster.until_woken(&["a", "b"]).await;

    nodes.add(node("n2", &[16])).await;
    cluster.until_woken(&["a", "b", "c"]).await;
    assert_eq!(cluster.patches(), 3);
}

#[tokio::test]
async fn the_highest_priority_comes_first_and_then_the_oldest() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("holder", 8, "n1").await;
    let mut urgent = cluster.create("urgent", 8).await;
    urgent.spec.as_mut().unwrap().priority = Some(7);
    let plain = cluster.create("a-plain-one", 8).await;
    cluster.refuse(&plain, &["n1"]).await;
    cluster.refuse(&urgent, &["n1"]).await;
    until("both are known to wait", async || {
        cluster.metric("gpushare_extender_waiting_pods").await == 2
    })
    .await;
    cluster.delete("holder").await;
    cluster.until_woken(&["urgent"]).await;
}

#[tokio::test]
async fn a_wake_that_fails_is_repeated() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("holder", 8, "n1").await;
    cluster.waiting("waits", 8, &["n1"]).await;
    let fault = cluster
        .server
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
    cluster.follow().await;
    until("somebody is woken", async || {
        !cluster.woken().await.is_empty()
    })
    .await;
    let woken = cluster.woken().await;
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
    let cluster = Following::start(&[node("n1", &[8])]).await;
    cluster.bound("holder", 8, "n1").await;
    cluster.waiting("waits", 8, &["n1"]).await;
    until("it is known to wait", async || {
        cluster.metric("gpushare_extender_waiting_pods").await == 1
    })
    .await;
    let on_its_way = cluster.server.faults().hold_before(pod_patches());
    cluster.delete("holder").await;
    on_its_way.reached(1).await;
    cluster.delete("waits").await;
    cluster.create("waits", 4).await;
    on_its_way.release();
    let gone = "gpushare_extender_wakes_total{outcome=\"gone\"}";
    until("the wake has come too late", async || {
        cluster.metric(gone).await == 1
    })
    .await;
    assert!(!is_woken(&cluster.read("waits").await));
}

impl Replica {
    /// Creates pods, each of which fills a card, and asks about them while there is no room.
    async fn keep_waiting(&self, cluster: &Following, names: &[String], node: &str) {
        for name in names {
            let pod = cluster.create(name, 8).await;
            let body = json!({"Pod": pod, "NodeNames": [node]});
            let result: ExtenderFilterResult = call(&self.extender, "filter", &body).await;
            assert_eq!(result.refused().len(), 1);
        }
        let all = u64::try_from(names.len()).unwrap();
        until("all are known to wait", async || {
            self.metric("waiting_pods").await == all
        })
        .await;
    }

    async fn bookings(&self) -> usize {
        let (_, metrics) = get(&self.extender, "/metrics").await;
        let states = metrics
            .lines()
            .filter(|line| line.starts_with("gpushare_extender_bookings{"));
        let counts = states.filter_map(|line| line.rsplit(' ').next()?.parse::<usize>().ok());
        counts.sum()
    }
}

#[tokio::test]
async fn only_the_leader_wakes_pods() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let first = Replica::deposable(&cluster, "a").await;
    let second = Replica::start(&cluster, "b", TIMING);
    let holder = cluster.create("holder", 8).await;
    assert_eq!(first.bind(&holder, "n1").await, "");
    let waits = ["waits".to_owned()];
    first.keep_waiting(&cluster, &waits, "n1").await;

    // The first still sees room appear, but no longer leads.
    first.line.cut_leases();
    first.until_not_ready().await;
    cluster.delete("holder").await;
    until("the first knows of the room", async || {
        first.bookings().await == 0
    })
    .await;
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
    first.keep_waiting(&cluster, &names, "n1").await;

    let gate = cluster.server.faults().hold_before(pod_patches());
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let grown = node("n1", &cards);
    let published = grown["metadata"]["annotations"].clone();
    nodes.annotate("n1", published).await;
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
