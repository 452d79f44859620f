//! Changes in the cluster appear without a reload; hostile names in it stay text.

use crate::Window;
use crate::cluster::{A100, Cluster};

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_is_created_appears_without_a_reload() {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    let window = Window::on(&cluster);
    window.go("#/nodes/gpu-a", "No pod is on this card.");
    window.eval("window.untouched = true");
    cluster.place_train(("gpu-a", 0)).await;
    window.shows("default/train");
    cluster.remove_pod("default", "train").await;
    window.shows("No pod is on this card.");
    assert_eq!(window.eval("window.untouched"), true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_cannot_be_placed_appears_with_its_reason() {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    let window = Window::on(&cluster);
    window.go("#/pending", "No pod waits for cards.");
    cluster.add_pod("default", "large", (90_000, 10)).await;
    window.shows("default/large");
    window.shows("no room");
    window.until("document.getElementById('pending-count').textContent === '1'");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_and_messages_that_look_like_markup_are_shown_as_text() {
    const HOSTILE: &str = "<img src=x onerror=window.hit=1><script>window.hit=1</script>";
    let cluster = Cluster::with_node("gpu-a", &[(HOSTILE, 80_000)]).await;
    let uid = cluster.add_pod("default", "large", (90_000, 10)).await;
    cluster.say("default", "large", &uid, HOSTILE).await;
    let window = Window::on(&cluster);
    for place in ["#/", "#/nodes", "#/nodes/gpu-a", "#/pods/default/large"] {
        window.go(place, HOSTILE);
    }
    assert_eq!(window.eval("window.hit === undefined"), true);
    let images = "document.querySelectorAll('main img, main script').length";
    assert_eq!(window.eval(images), 0);
    let complaints = window.page.complaints().join("\n");
    assert!(
        !complaints.contains("Content Security Policy"),
        "{complaints}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dashboard_that_went_away_is_said_so() {
    let cluster = Cluster::start().await;
    let window = Window::on(&cluster);
    window.go("#/", "Cluster");
    drop(cluster);
    window.shows("Connecting again");
}
