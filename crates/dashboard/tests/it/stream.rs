//! The live stream: only what changed, and all of it.

use std::net::SocketAddr;

use serde_json::json;

use crate::cluster::{A100, Cluster};
use crate::http::{Stream, Told, snapshot_with};

/// A dashboard that has listed a cluster of two nodes, and the id of its snapshot.
async fn ready() -> (Cluster, SocketAddr, String) {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    cluster.add_node("gpu-b", &[A100]).await;
    let dashboard = cluster.dashboard();
    let snapshot = snapshot_with(dashboard, |snapshot| snapshot["overview"]["nodes"] == 2).await;
    let id = snapshot["id"].as_str().unwrap().to_owned();
    (cluster, dashboard, id)
}

/// The stream of what changes after this event.
async fn stream_after(dashboard: SocketAddr, id: &str) -> Stream {
    Stream::open(dashboard, &format!("/api/stream?after={id}"), &[]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_placed_changes_its_node_and_no_other() {
    let (cluster, dashboard, id) = ready().await;
    let mut stream = stream_after(dashboard, &id).await;
    cluster.place_train(("gpu-b", 0)).await;
    let placed = |told: &Told| told.data["nodes"]["set"][0]["pods"] == 1;
    let told = stream.next_with(placed).await;
    assert_eq!(told.event, "delta");
    let set = told.data["nodes"]["set"].as_array().unwrap();
    assert_eq!(set.len(), 1);
    assert_eq!(set[0]["name"], "gpu-b");
    assert_eq!(told.data["overview"]["memory"]["used"], 20_480);
    cluster.remove_pod("default", "train").await;
    let removed = |told: &Told| told.data["nodes"]["set"][0]["pods"] == 0;
    let told = stream.next_with(removed).await;
    assert_eq!(told.data["touched"], json!(["gpu-b"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_was_cut_off_goes_on_after_its_last_event() {
    let (cluster, dashboard, id) = ready().await;
    let mut stream = stream_after(dashboard, &id).await;
    cluster.add_pod("default", "one", (1024, 1)).await;
    let waits = |told: &Told, name: &str| told.data["pending"]["set"][0]["name"] == name;
    let seen = stream.next_with(|told| waits(told, "one")).await;
    drop(stream);
    cluster.add_pod("default", "two", (1024, 1)).await;
    let again = [("Last-Event-ID", seen.id.as_str())];
    let path = format!("/api/stream?after={id}");
    let mut stream = Stream::open(dashboard, &path, &again).await;
    let told = stream
        .next_with(|told| {
            assert_eq!(told.event, "delta", "{told:?}");
            waits(told, "two")
        })
        .await;
    assert_eq!(told.data["pending"]["set"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_from_another_process_gets_everything_anew() {
    let (_cluster, dashboard, _) = ready().await;
    for id in ["other.7", "nonsense", ""] {
        let headers = [("Last-Event-ID", id)];
        let mut stream = Stream::open(dashboard, "/api/stream", &headers).await;
        let told = stream.next().await;
        assert_eq!(told.event, "snapshot");
        assert_eq!(told.data["nodes"].as_array().unwrap().len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_is_sampled_while_somebody_looks() {
    let (_cluster, dashboard, id) = ready().await;
    let mut stream = stream_after(dashboard, &id).await;
    let sampled = |told: &Told| told.data["sample"].is_object();
    let told = stream.next_with(sampled).await;
    assert_eq!(told.data["sample"]["pods"], 0);
}
