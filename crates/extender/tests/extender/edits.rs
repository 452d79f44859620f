//! Edits of existing pods by tenants: they move no booking.

use std::time::Duration;

use gpushare_core::names;
use gpushare_extender::config::Config;
use gpushare_testkit::assert_contains;

use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::{config, node};

/// Each of these makes the request of a pending pod invalid.
const SENSELESS_CHOICES: [(&str, &str); 5] = [
    (names::POLICY, "x"),
    (names::CARD_MODELS, ","),
    (names::CARD_IDS, ""),
    (names::EXCLUDE_CARD_IDS, ","),
    (names::EXCLUDE_CARD_MODELS, "--"),
];

impl Following {
    /// Waits until the extender has seen everything that was written before: events arrive in order.
    async fn catch_up(&self) {
        self.bound("last", 1, "n1").await;
        until("the last pod is confirmed", async || {
            !self.bookings().await.contains_key("settled")
        })
        .await;
    }
}

#[tokio::test]
async fn a_running_pod_keeps_its_card_whatever_its_tenant_annotates() {
    for (name, value) in SENSELESS_CHOICES {
        let cluster = Following::start(&[node("n1", &[16])]).await;
        cluster.bound("victim", 10, "n1").await;
        cluster.until_confirmed(1).await;
        cluster.annotate("victim", name, Some(value)).await;
        cluster.catch_up().await;
        let heir = cluster.create("heir", 10).await;
        assert!(!cluster.fits(&heir, "n1").await, "{name}={value}");

        let cluster = cluster.restarted(config()).await;
        assert_eq!(cluster.bookings().await["confirmed"], 2, "{name}={value}");
        let fits = cluster.fits(&heir, "n1").await;
        assert!(!fits, "{name}={value} and a restart");
    }
}

#[tokio::test]
async fn a_bind_under_way_keeps_its_room_until_its_outcome_is_known_if_the_pod_becomes_invalid() {
    let patient = Config {
        // Far longer than what happens below.
        bind_timeout: Duration::from_secs(10),
        ..config()
    };
    let cluster = Following::prepare_with(patient, &[node("n1", &[16])]).await;
    let cluster = cluster.following().await;
    let pod = cluster.create("p", 10).await;
    let (gate, call) = cluster.hold_bind(&cluster, &pod).await;
    cluster.annotate("p", names::POLICY, Some("x")).await;
    cluster
        .until_event("p", names::event::INVALID_REQUEST)
        .await;
    let heir = cluster.create("heir", 10).await;
    let fits = cluster.fits(&heir, "n1").await;
    assert!(!fits, "the bind may have taken effect");

    // The bind was decided for what the pod asked for before.
    gate.release();
    assert_contains(&call.await.unwrap(), "the request is invalid");
    assert_eq!(cluster.sent_binds(), 1);
    cluster.until_bookings(&[]).await;
    assert_eq!(cluster.bind(&heir, "n1").await, "");
}
