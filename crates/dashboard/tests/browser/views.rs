//! Every view: what it shows, how it is used without a mouse, and that it is accessible.

use gpushare_browser::axe;
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
    let window = Window::open(cluster.dashboard(), LIGHT);
    for (_, place, text) in VIEWS {
        window.go(place, text);
    }
    let own = format!("http://{}/", window.address);
    let requests = window.page.requests();
    assert!(requests.len() > 10, "{requests:?}");
    let foreign: Vec<&String> = requests
        .iter()
        .filter(|url| !url.starts_with(&own))
        .collect();
    assert_eq!(foreign, Vec::<&String>::new());
    let complaints = window.page.complaints();
    assert_eq!(complaints, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_view_passes_the_accessibility_check_in_light_and_dark() {
    let script = axe::script().unwrap();
    let cluster = demo::cluster().await;
    let address = cluster.dashboard();
    for look in [LIGHT, DARK] {
        let window = Window::open(address, look);
        for (_, place, text) in VIEWS {
            window.go(place, text);
            let findings = axe::findings(&window.page, &script).unwrap();
            assert_eq!(
                findings,
                Vec::<String>::new(),
                "{place}, dark: {}",
                look.dark
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_view_is_wider_than_a_small_window() {
    let cluster = demo::cluster().await;
    let window = Window::open(cluster.dashboard(), SMALL);
    for (_, place, text) in VIEWS {
        window.go(place, text);
        let wide = window.page.eval("document.documentElement.scrollWidth");
        assert_eq!(wide.unwrap(), json!(SMALL.width), "{place}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn going_back_finds_the_list_as_it_was_left() {
    let cluster = Cluster::start().await;
    for node in ["gpu-a", "gpu-b"] {
        cluster.add_node(node, &[A100; 2]).await;
    }
    cluster
        .place("default", "train", ("gpu-b", 1), (20_480, 30))
        .await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/nodes", "2 nodes");
    let page = &window.page;
    page.press("/").unwrap();
    page.wait("document.activeElement.id === 'search'").unwrap();
    page.type_text("gpu-b").unwrap();
    page.wait_for_text("1 of 2 nodes").unwrap();
    page.eval("document.querySelector('tbody a').click()")
        .unwrap();
    page.wait_for_text("default/train").unwrap();
    page.eval("document.querySelector('.card tbody a').click()")
        .unwrap();
    page.wait_for_text("Container").unwrap();
    // Follow the link from the pod to its card.
    page.eval("document.querySelector('tbody a').click()")
        .unwrap();
    page.wait("document.activeElement.textContent === 'Card 1'")
        .unwrap();
    page.eval("history.go(-3)").unwrap();
    page.wait_for_text("1 of 2 nodes").unwrap();
    assert_eq!(
        page.eval("document.getElementById('search').value")
            .unwrap(),
        json!("gpu-b")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dark_and_light_follow_what_the_user_prefers() {
    let cluster = Cluster::start().await;
    let address = cluster.dashboard();
    let background = |look| {
        let window = Window::open(address, look);
        window.go("#/", "Cluster");
        let color = "getComputedStyle(document.body).backgroundColor";
        window.page.eval(color).unwrap()
    };
    assert_eq!(background(LIGHT), json!("rgb(244, 245, 248)"));
    assert_eq!(background(DARK), json!("rgb(15, 18, 24)"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_found_and_opened_with_the_keyboard_alone() {
    let cluster = demo::cluster().await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/nodes", "24 nodes");
    let page = &window.page;
    page.press("/").unwrap();
    page.wait("document.activeElement.id === 'search'").unwrap();
    page.type_text("l40s-03").unwrap();
    page.wait_for_text("1 of 24 nodes").unwrap();
    let on_link = "document.activeElement.textContent === 'l40s-03'";
    for _ in 0..6 {
        page.press("Tab").unwrap();
        if page.eval(on_link).unwrap() == json!(true) {
            break;
        }
    }
    page.wait(on_link).unwrap();
    page.press("Enter").unwrap();
    page.wait("document.querySelector('h1').textContent === 'l40s-03'")
        .unwrap();
    page.wait_for_text("unhealthy").unwrap();
    // Keyboard focus moves to the new view.
    page.wait("document.activeElement.id === 'main'").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_found_by_its_name_wherever_it_is() {
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[A100]).await;
    cluster
        .place("default", "train-7", ("gpu-a", 0), (20_480, 30))
        .await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/nodes", "1 node");
    let page = &window.page;
    page.press("/").unwrap();
    page.wait("document.activeElement.id === 'search'").unwrap();
    page.type_text("train").unwrap();
    page.wait_for_text("1 pod found").unwrap();
    page.wait_for_text("default/train-7 on gpu-a").unwrap();
    page.wait_for_text("No node or model has this").unwrap();
    pictures::keep(&window, "search");
    page.eval("document.querySelector('.names a').click()")
        .unwrap();
    page.wait("document.querySelector('h1').textContent === 'default/train-7'")
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_and_bars_say_in_words_what_they_show() {
    let cluster = Cluster::start().await;
    cluster.add_node("gpu-a", &[A100]).await;
    cluster
        .place("default", "train", ("gpu-a", 0), (20_480, 30))
        .await;
    let window = Window::open(cluster.dashboard(), LIGHT);
    window.go("#/nodes/gpu-a", "default/train");
    let labels =
        "[...document.querySelectorAll('.stack')].map((bar) => bar.getAttribute('aria-label'))";
    assert_eq!(
        window.page.eval(labels).unwrap(),
        json!(["Memory: 20 GiB of 80 GiB", "Compute: 30 of 100 %"])
    );
    let width = "document.querySelector('.part').getBoundingClientRect().width / document.querySelector('.stack').getBoundingClientRect().width";
    let part = window.page.eval(width).unwrap().as_f64().unwrap();
    assert!((part - 0.25).abs() < 0.01, "{part}");
}
