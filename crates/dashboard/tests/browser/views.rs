//! Every view: what it shows, how it is used without a mouse, and that it is accessible.

use serde_json::json;

use crate::cluster::{A100, Cluster};
use crate::{DARK, LIGHT, SMALL, Window, demo, pictures};

/// Each view: its name, where it is, and a text that only it has.
pub(crate) const VIEWS: [(&str, &str, &str); 7] = [
    ("overview", "#/", "Packing over time"),
    ("nodes", "#/nodes", "24 nodes"),
    ("node", "#/nodes/a100-01", "NVIDIA A100-SXM4-80GB"),
    ("pending", "#/pending", "What would help"),
    ("pod", "#/pods/language/pretrain-0", "Why it waits"),
    ("placed", "#/pods/vision/embed-1-0", "GPU-a100-01-0"),
    ("budgets", "#/budgets", "even pace"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_view_is_drawn_without_complaints_and_asks_nobody_else() {
    let cluster = demo::cluster().await;
    let window = Window::on(&cluster);
    for (_, place, text) in VIEWS {
        window.go(place, text);
    }
    let own = format!("http://{}/", window.address);
    let mut requests = window.page.requests();
    assert!(requests.len() > 10, "{requests:?}");
    requests.retain(|url| !url.starts_with(&own));
    assert_eq!(requests, [""; 0]);
    assert_eq!(window.page.complaints(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_passes_the_accessibility_check_in_light_and_dark() {
    let cluster = demo::cluster().await;
    let address = cluster.dashboard();
    for look in [LIGHT, DARK] {
        let window = Window::open(address, look);
        for (_, place, text) in VIEWS {
            window.go(place, text);
            window.is_accessible(place);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_view_is_wider_than_a_small_window() {
    let cluster = demo::cluster().await;
    let window = Window::open(cluster.dashboard(), SMALL);
    for (_, place, text) in VIEWS {
        window.go(place, text);
        let width = window.eval("document.documentElement.scrollWidth");
        assert_eq!(width, SMALL.width, "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_finds_the_list_as_it_was_left() {
    let cluster = Cluster::with_node("gpu-a", &[A100; 2]).await;
    cluster.add_node("gpu-b", &[A100; 2]).await;
    cluster.place_train(("gpu-b", 1)).await;
    let window = Window::on(&cluster);
    window.go("#/nodes", "2 nodes");
    window.search("gpu-b");
    window.shows("1 of 2 nodes");
    window.click("tbody a");
    window.shows("default/train");
    window.click(".card tbody a");
    window.shows("Container");
    // Follow the link from the pod to its card.
    window.click("tbody a");
    window.until("document.activeElement.textContent === 'Card 1'");
    window.eval("history.go(-3)");
    window.shows("1 of 2 nodes");
    let searched = "document.getElementById('search').value";
    assert_eq!(window.eval(searched), "gpu-b");
}

#[tokio::test(flavor = "multi_thread")]
async fn dark_and_light_follow_what_the_user_prefers() {
    let cluster = Cluster::start().await;
    let address = cluster.dashboard();
    for (look, background) in [(LIGHT, "rgb(244, 245, 248)"), (DARK, "rgb(15, 18, 24)")] {
        let window = Window::open(address, look);
        window.go("#/", "Cluster");
        let shown = window.eval("getComputedStyle(document.body).backgroundColor");
        assert_eq!(shown, background, "{}", window.scheme);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_found_and_opened_with_the_keyboard_alone() {
    let cluster = demo::cluster().await;
    let window = Window::on(&cluster);
    window.go("#/nodes", "24 nodes");
    window.search("l40s-03");
    window.shows("1 of 24 nodes");
    window.tab_until("document.activeElement.textContent === 'l40s-03'", 6);
    window.press("Enter");
    window.shows_the_view_of("l40s-03");
    window.shows("unhealthy");
    // Keyboard focus moves to the new view.
    window.until_focus_is_on("main");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_found_by_its_name_wherever_it_is() {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    cluster.place_train(("gpu-a", 0)).await;
    let window = Window::on(&cluster);
    window.go("#/nodes", "1 node");
    window.search("trai");
    window.shows("1 pod found");
    window.shows("default/train on gpu-a");
    window.shows("No node or model has this");
    pictures::keep(&window, "search");
    window.click(".names a");
    window.shows_the_view_of("default/train");
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_and_bars_say_in_words_what_they_show() {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    cluster.place_train(("gpu-a", 0)).await;
    let window = Window::on(&cluster);
    window.go("#/nodes/gpu-a", "default/train");
    let labels =
        "[...document.querySelectorAll('.stack')].map((bar) => bar.getAttribute('aria-label'))";
    let words = json!(["Memory: 20 GiB of 80 GiB", "Compute: 30 of 100 %"]);
    assert_eq!(window.eval(labels), words);
    let width = "document.querySelector('.part').getBoundingClientRect().width / document.querySelector('.stack').getBoundingClientRect().width";
    let part = window.eval(width).as_f64().unwrap();
    assert!((part - 0.25).abs() < 0.01, "{part}");
}
