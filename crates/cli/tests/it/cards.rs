//! `kubectl gpushare cards` against an API server.

use std::io::{BufRead, BufReader};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::cluster::{Cluster, inventory_of};
use crate::said::{assert_parts, assert_same_object, stderr, stdout};

/// Long enough for a loaded machine; a watch that never answers must still fail the test.
const DEADLINE: Duration = Duration::from_mins(2);

async fn two_nodes() -> Cluster {
    let node = |name, pool, mib| {
        let annotations = inventory_of(name, mib);
        let metadata = json!({"name": name, "labels": {"pool": pool}, "annotations": annotations});
        json!({"metadata": metadata, "status": {}})
    };
    let nodes = [
        node("gpu-a", "train", &[16_384, 16_384]),
        node("gpu-b", "serve", &[8_192, 81_559]),
    ];
    let cluster = Cluster::of_nodes(&nodes).await;
    let share = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "4096", "gpushare.io/gpu-core": "30"});
    for name in ["train-0", "train-1"] {
        cluster.place(name, "gpu-a", &share, "GPU-gpu-a-0").await;
    }
    let whole = json!({"gpushare.io/gpu": "1"});
    cluster.place("big", "gpu-b", &whole, "GPU-gpu-b-1").await;
    cluster
}

fn printed(cluster: &Cluster, arguments: &[&str]) -> String {
    stdout(cluster.gpushare(&["cards"]).args(arguments))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_card_is_a_line_with_a_bar() {
    let cluster = two_nodes().await;
    insta::assert_snapshot!(printed(&cluster, &[]));
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_names_ids_and_pods() {
    let cluster = two_nodes().await;
    insta::assert_snapshot!(printed(&cluster, &["-o", "wide", "gpu-a"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn json_keeps_its_schema_and_yaml_says_the_same() {
    let cluster = two_nodes().await;
    let json = printed(&cluster, &["-o", "json", "-l", "pool=train"]);
    insta::assert_snapshot!(json);
    let yaml = printed(&cluster, &["-o", "yaml", "-l", "pool=train"]);
    assert_same_object(&json, &yaml);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_without_cards_says_so() {
    let cluster = Cluster::start().await;
    assert_eq!(
        printed(&cluster, &[]),
        "no cards: no gpushare agent has published any\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_that_no_node_has_are_not_taken_for_a_cluster_without_cards() {
    let cluster = two_nodes().await;
    assert_eq!(
        printed(&cluster, &["-l", "pool=none"]),
        "no node with these labels has cards\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_cards_is_named_with_what_to_check() {
    let cluster = two_nodes().await;
    let complaint = stderr(&mut cluster.gpushare(&["cards", "gpu-z"]), 1);
    let part = "no node \"gpu-z\" with cards is known; check its name";
    assert_parts(&complaint, &[part]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inventory_that_cannot_be_read_is_reported_beside_the_others() {
    let cluster = two_nodes().await;
    let metadata = json!({"name": "odd", "annotations": {"gpushare.io/cards": "{"}});
    cluster
        .add_node(&json!({"metadata": metadata, "status": {}}))
        .await;
    assert_parts(&printed(&cluster, &[]), &["\nnode odd: ", "gpu-a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_prints_again_when_a_pod_takes_a_card() {
    let cluster = two_nodes().await;
    let mut child = Process::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .args(["cards", "gpu-b", "--watch"])
        .env("KUBECONFIG", cluster.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = child.stdout.take().unwrap();
    let (send, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(stdout).lines().map_while(Result::ok);
        lines
            .take_while(|line| send.send(line.clone()).is_ok())
            .for_each(drop);
    });
    let wait_for = |part: &str| {
        let deadline = Instant::now() + DEADLINE;
        let left = || deadline.saturating_duration_since(Instant::now());
        while !lines.recv_timeout(left()).unwrap().contains(part) {}
    };
    wait_for("0/8192");
    let share = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "1024"});
    cluster.place("late", "gpu-b", &share, "GPU-gpu-b-0").await;
    wait_for("1024/8192");
    child.kill().unwrap();
    child.wait().unwrap();
}
