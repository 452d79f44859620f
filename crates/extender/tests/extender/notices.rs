//! Owners of pods with an invalid request are notified once.

use gpushare_testkit::cluster::Objects;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::api::{Following, until};
use crate::cluster::node;

#[tokio::test]
async fn an_invalid_request_is_explained_in_one_event_on_the_pod() {
    let cluster = Following::start(&[node("n1", &[8])]).await;
    let pod = cluster.create("nonsense", 0).await;
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    let listed = async || events.list(&ListParams::default()).await.unwrap().items;
    until("the event is there", async || !listed().await.is_empty()).await;

    // Another change of the same pod posts no more events; a second invalid pod shows when the change was seen.
    let touch = json!({"metadata": {"labels": {"touched": "yes"}}});
    cluster.pods().merge("nonsense", touch).await;
    cluster.create("later", 0).await;
    until("the next pod's event is there", async || {
        listed().await.len() > 1
    })
    .await;

    let events = listed().await;
    assert_eq!(events.len(), 2);
    let event = events
        .iter()
        .find(|event| event.involved_object.uid == pod.metadata.uid);
    let event = event.expect("an event on the pod");
    assert_eq!(event.reason.as_deref(), Some("InvalidGpuRequest"));
    let message = event.message.as_deref().unwrap_or_default();
    assert!(
        message.contains("asks for nothing; write at least 1 GiB"),
        "{message}"
    );
}
