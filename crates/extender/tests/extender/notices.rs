//! Owners of pods with an invalid request are notified once.

use gpushare_testkit::assert_contains;
use gpushare_testkit::cluster::Objects;
use serde_json::json;

use crate::api::{Following, until};
use crate::cluster::node;

#[tokio::test]
async fn an_invalid_request_is_explained_in_one_event_on_the_pod() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("nonsense", 0).await;
    let posted = async || cluster.events().await.len();
    until("the event is there", async || posted().await > 0).await;

    // Another change of the same pod posts no more events; a second invalid pod shows when the change was seen.
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    cluster.pods().merge("nonsense", touch).await;
    cluster.create("later", 0).await;
    until("the next pod's event is there", async || posted().await > 1).await;

    let events = cluster.events().await;
    assert_eq!(events.len(), 2);
    let mut events = events.iter();
    let event = events.find(|event| event.involved_object.uid == pod.metadata.uid);
    let event = event.expect("an event on the pod");
    assert_eq!(event.reason.as_deref(), Some("InvalidGpuRequest"));
    let message = event.message.as_deref().unwrap_or_default();
    assert_contains(message, "asks for nothing; write at least 1 GiB");
}
