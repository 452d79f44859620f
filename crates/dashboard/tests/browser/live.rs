//! Changes in the cluster appear without a reload; hostile names in it stay text.

use serde_json::json;

use crate::cluster::{A100, Cluster};
use crate::{LIGHT, Window};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_created_appears_without_a_reload() {
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[A100]).await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/nodes/gpu-a", "No pod is on this card.");
    window.page.eval("window.untouched = true").unwrap();
    cluster
        .place("default", "train", ("gpu-a", 0), (20_480, 30))
        .await;
    window.page.wait_for_text("default/train").unwrap();
    cluster.remove_pod("default", "train").await;
    window
        .page
        .wait_for_text("No pod is on this card.")
        .unwrap();
    assert_eq!(window.page.eval("window.untouched").unwrap(), json!(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_placed_appears_with_its_reason() {
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[A100]).await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/pending", "No pod waits for cards.");
    cluster.add_pod("default", "large", (90_000, 10)).await;
    window.page.wait_for_text("default/large").unwrap();
    window.page.wait_for_text("no room").unwrap();
    let count = "document.getElementById('pending-count').textContent === '1'";
    window.page.wait(count).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_messages_that_look_like_markup_are_shown_as_text() {
    const HOSTILE: &str = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[(HOSTILE, 80_000)]).await;
    let uid = cluster.add_pod("default", "large", (90_000, 10)).await;
    cluster.say("default", "large", &uid, HOSTILE).await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    for place in ["#/", "#/nodes", "#/nodes/gpu-a", "#/pods/default/large"] {
        window.go(place, HOSTILE);
    }
    assert_eq!(
        window.page.eval("window.hit === undefined").unwrap(),
        json!(true)
    );
    let images = "document.querySelectorAll('main img, main script').length";
    assert_eq!(window.page.eval(images).unwrap(), json!(0));
    let complaints = window.page.complaints().join("\n");
    assert!(
        !complaints.contains("Content Security Policy"),
        "{complaints}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_that_went_away_is_said_so() {
    let cluster = Cluster::start().await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/", "Cluster");
    drop(cluster);
    window.page.wait_for_text("Connecting again").unwrap();
}
