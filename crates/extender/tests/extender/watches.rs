//! Following an API server whose lists and watches fail, and taking over from a killed predecessor.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_apiserver::{On, Times, Verb};
use gpushare_core::names;
use gpushare_kube::PodRef;
use gpushare_kube::bind::Bind;
use gpushare_testkit::cluster::Objects;

use crate::api::{Following, fences, pod_watches, until};
use crate::asked::Asked;
use crate::cluster::{node, pod_of_gib, running};

#[tokio::test]
async fn what_happened_while_a_watch_was_broken_is_caught_up() {
    for expired in [false, true] {
        let cluster = Following::start(&[node("n1", &[16])]).await;
        for name in ["ends", "deleted", "stays"] {
            cluster.bound(name, 4, "n1").await;
        }
        cluster.until_confirmed(3).await;
        let hidden = cluster.hide_pods().await;
        cluster.set_phase("ends", "Failed").await;
        cluster.delete("deleted").await;
        if expired {
            cluster.faults().expire_history();
        }
        assert_eq!(cluster.bookings().await["confirmed"], 3, "not known yet");
        hidden.release();
        cluster.until_confirmed(1).await;
    }
}

#[tokio::test]
async fn a_node_that_is_deleted_takes_no_more_pods() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("p", 4).await;
    cluster.nodes().delete_now("n1").await;
    until("the node is refused", async || {
        let result = cluster.filter(&pod, &["n1"]).await;
        result.refused().contains_key("n1")
    })
    .await;
    let error = cluster.bind(&pod, "n1").await;
    assert_eq!(error, "gpushare: node n1 does not exist");
}

#[tokio::test]
async fn readiness_waits_for_lists_that_fail_at_first() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let lists = On::any().verb(Verb::List).resource("pods");
    let fault = cluster.faults().cut_before(lists, Times::Next(2));
    let _cluster = cluster.following().await;
    assert_eq!(fault.hits(), 2);
}

/// The predecessor's bind arrives after the list, and no watch shows it.
#[tokio::test]
async fn a_bind_of_a_killed_predecessor_that_came_before_the_fence_is_booked() {
    let cluster = Following::prepare(&[node("n1", &[8])]).await;
    let [theirs, ours] = cluster.create_both(["theirs", "ours"], 8).await;
    let blind = cluster.faults().hold_before(pod_watches());
    let fenced = cluster.faults().hold_before(fences());
    let cluster = cluster.following().await;
    fenced.reached(1).await;

    let metadata = &theirs.metadata;
    let uid = metadata.uid.as_deref().unwrap();
    let mut recorded = pod_of_gib("theirs", 8);
    recorded["metadata"]["uid"] = uid.into();
    let recorded = running(recorded, "n1", "GPU-n1-0");
    let record = recorded["metadata"]["annotations"][names::ALLOCATION]
        .as_str()
        .unwrap();
    let late = Bind {
        pod: PodRef {
            uid: uid.into(),
            namespace: "default".to_owned(),
            name: "theirs".to_owned(),
        },
        version: metadata.resource_version.clone().unwrap(),
        node: "n1".into(),
        annotations: BTreeMap::from([(names::ALLOCATION.to_owned(), record.to_owned())]),
        timeout: Duration::from_secs(2),
    };
    assert_eq!(late.send(&cluster.client).await, Ok(()));
    fenced.release();

    cluster
        .bind_fails(
            &ours,
            "n1",
            "no card has 8192 MiB of memory free, the most is 0",
        )
        .await;
    assert_eq!(cluster.sent_binds(), 1, "theirs only");
    blind.release();
}
