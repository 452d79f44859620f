//! What every viewer gets: the page, its files, and the data that the page reads.

use serde_json::{Value, json};

use crate::cluster::{A100, Cluster, T4};
use crate::http::{Stream, ask, snapshot_with, when_ready};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_forbids_foreign_and_inline_code() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    for path in ["/", "/assets/main.js", "/api/snapshot", "/x"] {
        let answer = ask(dashboard, &format!("GET {path}"), &[]).await;
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.contains("default-src 'none'"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_names_only_files_that_are_served_and_has_nothing_inline() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    let page = ask(dashboard, "GET /", &[]).await;
    assert_eq!(page.status, 200);
    let page = page.text();
    assert!(!page.contains("style=") && !page.contains("<style"));
    let count = |text: &str| page.matches(text).count();
    assert_eq!(count("<script"), count("<script type=\"module\" src="));
    let named = |text: &str, before: &str| -> Vec<String> {
        let rest = text.split(before).skip(1);
        rest.map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let main = ask(dashboard, "GET /assets/main.js", &[]).await;
    let mut files = named(&page, "\"/assets/");
    files.extend(named(&main.text(), "from \"./"));
    assert!(files.len() > 8, "{files:?}");
    for file in files {
        let answer = ask(dashboard, &format!("GET /assets/{file}"), &[]).await;
        assert_eq!(answer.status, 200, "{file}");
        assert!(!answer.text().contains("innerHTML"), "{file}");
        assert!(!answer.text().contains("https://"), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_browser_has_is_not_sent_again() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    let first = ask(dashboard, "GET /assets/style.css", &[]).await;
    let version = first.header("etag").unwrap();
    let known = [("If-None-Match", version)];
    let again = ask(dashboard, "GET /assets/style.css", &known).await;
    assert_eq!((again.status, &*again.body), (304, &b""[..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_large_is_sent_compressed_to_whoever_takes_it() {
    let cluster = Cluster::start().await;
    for node in 0..50 {
        cluster.add_node(&format!("gpu-{node}"), &[A100; 8]).await;
    }
    let dashboard = cluster.dashboard();
    snapshot_with(dashboard, |snapshot| snapshot["overview"]["nodes"] == 50).await;
    for path in ["/", "/assets/style.css", "/assets/main.js", "/api/snapshot"] {
        let request = format!("GET {path}");
        let plain = ask(dashboard, &request, &[]).await;
        assert_eq!(plain.header("content-encoding"), None, "{path}");
        let small = ask(dashboard, &request, &[("Accept-Encoding", "gzip, br")]).await;
        assert_eq!(small.header("content-encoding"), Some("gzip"), "{path}");
        assert_eq!(small.header("vary"), Some("accept-encoding"), "{path}");
        assert!(small.header("content-security-policy").is_some(), "{path}");
        let size = small.body.len();
        assert!(size < plain.body.len() * 2 / 3, "{path}: {size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_sent_as_they_happen_and_not_compressed() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    when_ready(dashboard, "/api/snapshot").await;
    let compressed = [("Accept-Encoding", "gzip")];
    let mut stream = Stream::open(dashboard, "/api/stream", &compressed).await;
    assert_eq!(stream.next().await.event, "snapshot");
    cluster.add_node("gpu-a", &[A100]).await;
    stream
        .next_with(|told| told.data["touched"][0] == "gpu-a")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_can_be_changed() {
    let cluster = Cluster::start().await;
    let dashboard = cluster.dashboard();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in ["/", "/api/snapshot", "/api/nodes/a"] {
            let answer = ask(dashboard, &format!("{method} {path}"), &[]).await;
            assert_eq!(answer.status, 405, "{method} {path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_shows_its_cards_and_the_pods_on_them() {
    let cluster = Cluster::with_node("gpu-a", &[A100, T4]).await;
    let card = ("gpu-a", 0);
    cluster.place_train(card).await;
    cluster.place("default", "serve", card, (10_240, 20)).await;
    let dashboard = cluster.dashboard();
    let snapshot = snapshot_with(dashboard, |snapshot| snapshot["overview"]["pods"] == 2).await;
    let row = &snapshot["nodes"][0];
    assert_eq!(row["memory"], json!({"used": 30_720, "size": 97_280}));
    assert_eq!(row["full"], json!([50, 0]));
    assert_eq!(row["models"], json!([A100.0, T4.0]));
    let node = when_ready(dashboard, "/api/nodes/gpu-a").await.json();
    let card = &node["devices"][0];
    assert_eq!(card["used"], json!({"memory": 30_720, "core": 50}));
    let pods = card["pods"].as_array().unwrap();
    let names: Vec<&Value> = pods.iter().map(|pod| &pod["name"]).collect();
    assert_eq!(names, ["serve", "train"]);
    assert_eq!(when_ready(dashboard, "/api/nodes/none").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_waits_shows_the_reason_what_would_help_and_what_the_scheduler_said() {
    let cluster = Cluster::with_node("gpu-a", &[T4]).await;
    let uid = cluster.add_pod("default", "large", (40_000, 10)).await;
    let said = "0/1 nodes are available: <b>none</b>";
    cluster.say("default", "large", &uid, said).await;
    let dashboard = cluster.dashboard();
    let snapshot = snapshot_with(dashboard, |snapshot| snapshot["overview"]["pending"] == 1).await;
    let row = &snapshot["pending"][0];
    assert_eq!(row["state"], "waiting");
    let asks = "1 card with 40000 MiB of memory and 10 % of core";
    assert_eq!(row["asks"], asks);
    assert!(row["reason"].as_str().unwrap().contains("1 node"), "{row}");
    assert!(!row["help"].as_array().unwrap().is_empty(), "{row}");
    let pod = when_ready(dashboard, "/api/pods/default/large").await;
    let pod = pod.json();
    assert_eq!(pod["pod"]["report"]["groups"][0]["kind"], "too-small");
    assert_eq!(pod["events"][0]["message"], said);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_found_by_parts_of_their_names() {
    let cluster = Cluster::with_node("gpu-a", &[A100]).await;
    for team in ["vision", "language"] {
        cluster.add_namespace(team, &json!({})).await;
    }
    let card = ("gpu-a", 0);
    cluster.place("vision", "train-1", card, (1024, 1)).await;
    cluster.add_pod("vision", "train-2", (1024, 1)).await;
    cluster.add_pod("language", "serve-1", (1024, 1)).await;
    let dashboard = cluster.dashboard();
    snapshot_with(dashboard, |snapshot| {
        snapshot["overview"]["pods"] == 1 && snapshot["overview"]["pending"] == 2
    })
    .await;
    let one = json!({"namespace": "vision", "name": "train-1", "node": "gpu-a"});
    let two = json!({"namespace": "vision", "name": "train-2", "node": null});
    let serve = json!({"namespace": "language", "name": "serve-1", "node": null});
    for (text, expected) in [
        ("train", json!([one, two])),
        ("VISION", json!([one, two])),
        ("vision%2Ftrain-2", json!([two])),
        ("-1", json!([serve, one])),
        ("nobody", json!([])),
    ] {
        let found = when_ready(dashboard, &format!("/api/pods?search={text}")).await;
        assert_eq!(found.json()["pods"], expected, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn budgets_show_who_pays_and_what_is_left() {
    let cluster = Cluster::start().await;
    let team = json!({"gpushare.io/team": "vision"});
    cluster.add_namespace("vision", &team).await;
    let spec = json!({"amount": "100h", "namespaces": {"team": "vision"}});
    let status = json!({"usedSeconds": 90_000, "heldSeconds": 0, "remainingSeconds": 270_000, "exhausted": false});
    cluster.add_budget("vision", &spec, &status).await;
    let dashboard = cluster.dashboard();
    let counted = |snapshot: &Value| snapshot["budgets"][0]["status"].is_object();
    let row = &snapshot_with(dashboard, counted).await["budgets"][0];
    assert_eq!(row["namespaces"], json!(["vision"]));
    assert_eq!(row["status"]["remainingSeconds"], 270_000);
    assert_eq!(row["points"][0][1], 270_000);
}
