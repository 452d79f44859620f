//! Edits of existing pods by tenants: they move no booking.

use std::time::Duration;

use gpushare_core::names;
use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::api::{Following, until};
use crate::cluster::node;

/// Each of these makes the request of a pending pod invalid.
const SENSELESS_CHOICES: [(&str, &str); 5] = [
    (names::POLICY, "x"),
    (names::CARD_MODELS, ","),
    (names::CARD_IDS, ""),
    (names::EXCLUDE_CARD_IDS, ","),
    (names::EXCLUDE_CARD_MODELS, "--"),
];

impl Following {
    async fn annotate(&self, pod: &str, name: &str, value: &str) {
        let patch = json!({name: value});
        self.pods().annotate(pod, patch).await;
    }

    /// Waits until the extender has seen everything that was written before: events arrive in order.
    async fn catch_up(&self) {
        let last = self.create("last", 1).await;
        assert_eq!(self.bind(&last, "n1").await, "");
        until("the last pod is confirmed", async || {
            !self.bookings().await.contains_key("settled")
        })
        .await;
    }

    async fn refuses(&self, pod: &Pod) -> bool {
        let answer = self.filter(pod, &["n1"]).await;
        answer.refused().contains_key("n1")
    }
}

#[tokio::test]
async fn a_running_pod_keeps_its_card_whatever_its_tenant_annotates() {
    for (name, value) in SENSELESS_CHOICES {
        let cluster = Following::start(&[node("n1", &[16])]).await;
        let victim = cluster.create("victim", 10).await;
        assert_eq!(cluster.bind(&victim, "n1").await, "");
        cluster.until_bookings(&[("confirmed", 1)]).await;
        cluster.annotate("victim", name, value).await;
        cluster.catch_up().await;
        let heir = cluster.create("heir", 10).await;
        assert!(cluster.refuses(&heir).await, "{name}={value}");

        let cluster = cluster.restarted();
        cluster.follow().await;
        assert_eq!(cluster.bookings().await["confirmed"], 2, "{name}={value}");
        assert!(cluster.refuses(&heir).await, "{name}={value} and a restart");
    }
}

#[tokio::test]
async fn a_bind_under_way_keeps_its_room_until_its_outcome_is_known_if_the_pod_becomes_invalid() {
    let cluster = Following::prepare(&[node("n1", &[16])]).await;
    // Far longer than what happens below.
    let cluster = cluster.with_bind_timeout(Duration::from_secs(10));
    cluster.follow().await;
    let pod = cluster.create("p", 10).await;
    let (gate, call) = cluster.begin_bind(&cluster.extender, &pod).await;
    cluster.annotate("p", names::POLICY, "x").await;
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), "default");
    until("the extender complains of the annotation", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        let mut reasons = events.items.into_iter().filter_map(|event| event.reason);
        reasons.any(|reason| reason == names::event::INVALID_REQUEST)
    })
    .await;
    let heir = cluster.create("heir", 10).await;
    assert!(
        cluster.refuses(&heir).await,
        "the bind may have taken effect"
    );

    // The bind was decided for what the pod asked for before.
    gate.release();
    let error = call.await.unwrap();
    assert!(error.contains("the request is invalid"), "{error}");
    assert_eq!(cluster.sent_binds(), 1);
    cluster.until_bookings(&[]).await;
    assert_eq!(cluster.bind(&heir, "n1").await, "");
}
