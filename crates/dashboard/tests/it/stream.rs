//! The live stream: only what changed, and all of it.

use crate::cluster::{A100, Cluster};
use crate::http::{Stream, snapshot_with};

async fn ready(cluster: &Cluster) -> (std::net::SocketAddr, String) {
    cluster.add_node("gpu-a", &[A100]).await;
    cluster.add_node("gpu-b", &[A100]).await;
    let dashboard = cluster.dashboard();
    let snapshot = snapshot_with(dashboard, |snapshot| snapshot["overview"]["nodes"] == 2).await;
    (dashboard, snapshot["id"].as_str().unwrap().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_placed_changes_its_node_and_no_other() {
    let cluster = Cluster::start().await;
    let (dashboard, id) = ready(&cluster).await;
    let mut stream = Stream::open(dashboard, &format!("/api/stream?after={id}"), &[]).await;
    cluster
        .place("default", "train", ("gpu-b", 0), (8192, 10))
        .await;
    let told = stream
        .next_with(|told| told.data["nodes"]["set"][0]["pods"] == 1)
        .await;
    assert_eq!(told.event, "delta");
    let set = told.data["nodes"]["set"].as_array().unwrap();
    assert_eq!(set.len(), 1);
    assert_eq!(set[0]["name"], "gpu-b");
    assert_eq!(told.data["overview"]["memory"]["used"], 8192);
    cluster.remove_pod("default", "train").await;
    let told = stream
        .next_with(|told| told.data["nodes"]["set"][0]["pods"] == 0)
        .await;
    assert_eq!(told.data["touched"], serde_json::json!(["gpu-b"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_was_cut_off_goes_on_after_its_last_event() {
    let cluster = Cluster::start().await;
    let (dashboard, id) = ready(&cluster).await;
    let path = format!("/api/stream?after={id}");
    let mut stream = Stream::open(dashboard, &path, &[]).await;
    cluster.add_pod("default", "one", (1024, 1)).await;
    let seen = stream
        .next_with(|told| told.data["pending"]["set"][0]["name"] == "one")
        .await;
    drop(stream);
    cluster.add_pod("default", "two", (1024, 1)).await;
    let again = [("Last-Event-ID", seen.id.as_str())];
    let mut stream = Stream::open(dashboard, &path, &again).await;
    let told = stream
        .next_with(|told| {
            assert_eq!(told.event, "delta", "{told:?}");
            told.data["pending"]["set"][0]["name"] == "two"
        })
        .await;
    assert_eq!(told.data["pending"]["set"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_from_another_process_gets_everything_anew() {
    let cluster = Cluster::start().await;
    let (dashboard, _) = ready(&cluster).await;
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
    let cluster = Cluster::start().await;
    let (dashboard, id) = ready(&cluster).await;
    let path = format!("/api/stream?after={id}");
    let mut stream = Stream::open(dashboard, &path, &[]).await;
    let told = stream
        .next_with(|told| told.data["sample"].is_object())
        .await;
    assert_eq!(told.data["sample"]["pods"], 0);
}
