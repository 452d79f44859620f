//! `kubectl inspect gpushare` against an API server: the predecessor's clusters, compared with its own
//! output, and ours with cards of several sizes.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use gpushare_core::names;
use serde_json::{Value, json};

use crate::cluster::{Cluster, inventory_of, pod};
use crate::said::{assert_parts, stderr, stdout};
use crate::why::share;

fn inspect(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_kubectl-inspect-gpushare"));
    inspect
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig());
    inspect
}

fn printed(cluster: &Cluster, arguments: &[&str]) -> String {
    stdout(&mut inspect(cluster, arguments))
}

/// Removes differences that do not matter: blanks at the end of a line, and the length of a rule of dashes.
fn comparable(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.trim_end();
        let rule = !line.is_empty() && line.chars().all(|character| character == '-');
        if rule {
            "-".to_owned()
        } else {
            line.to_owned()
        }
    };
    text.lines().map(line).collect()
}

fn items(path: &Path) -> Vec<Value> {
    let list: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    list["items"].as_array().unwrap().clone()
}

/// Compares our output for the predecessor's objects with what it printed for them.
async fn equals_the_predecessor(sample: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/inspect")
        .join(sample);
    let cluster = Cluster::of_nodes(&items(&folder.join("nodes.json"))).await;
    for pod in items(&folder.join("pods.json")) {
        cluster.add_pod(&pod).await;
    }
    let arguments = fs::read_to_string(folder.join("args")).unwrap_or_default();
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    for (flags, file) in [(vec![], "summary.txt"), (vec!["-d"], "details.txt")] {
        let golden = fs::read_to_string(folder.join(file)).unwrap();
        let ours = printed(&cluster, &[flags, arguments.clone()].concat());
        assert_eq!(
            comparable(&ours),
            comparable(&golden),
            "{file}:\n{ours}\n{golden}"
        );
    }
}

macro_rules! samples {
    ($($name:ident: $folder:literal;)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            equals_the_predecessor($folder).await;
        }
    )*};
}

samples! {
    two_nodes_look_as_the_predecessor_printed_them: "two-nodes";
    memory_in_mib_looks_as_the_predecessor_printed_it: "mib";
    one_node_looks_as_the_predecessor_printed_it: "one-node-arg";
    a_pod_without_a_card_is_pending_as_the_predecessor_printed_it: "pending";
    a_cluster_without_cards_looks_as_the_predecessor_printed_it: "none";
    pods_with_several_cards_look_as_the_predecessor_printed_them: "several-cards-per-pod";
    sixteen_cards_and_a_node_they_do_not_divide_look_as_the_predecessor_printed_them: "sixteen-cards";
    ended_pods_and_init_containers_count_as_the_predecessor_counted_them: "ended-and-init";
    a_node_without_memory_by_name_looks_as_the_predecessor_printed_it: "no-memory-node-arg";
}

fn theirs(name: &str, memory: u64, cards: u64) -> Value {
    json!({
        "metadata": {"name": name},
        "status": {
            "allocatable": {"aliyun.com/gpu-mem": memory.to_string(), "aliyun.com/gpu-count": cards.to_string()},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        },
    })
}

fn gib(amount: &str) -> Value {
    json!({"aliyun.com/gpu-mem": amount})
}

/// The card that the predecessor chose for a pod, in its older annotation.
fn on_card(index: &str) -> Value {
    json!({names::aliyun::IDX: index})
}

#[tokio::test(flavor = "multi_thread")]
async fn several_cards_of_a_pod_are_read_from_the_newer_annotation() {
    let nodes = [theirs("four", 60, 4), theirs("two", 32, 2)];
    let cluster = Cluster::of_nodes(&nodes).await;
    let limits = [gib("5"), gib("7")];
    let allocation = json!({names::aliyun::ALLOCATION: r#"{"0":{"1":2,"3":3},"1":{"1":7}}"#});
    let wide = pod("wide", "four", &limits, &allocation);
    cluster.add_pod(&wide).await;
    let nonsense = json!({names::aliyun::ALLOCATION: "[]", names::aliyun::IDX: "1"});
    let old = pod("old", "two", &limits, &nonsense);
    cluster.add_pod(&old).await;
    insta::assert_snapshot!("several_cards_summary", printed(&cluster, &[]));
    insta::assert_snapshot!("several_cards_details", printed(&cluster, &["--details"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_nodes_can_be_named() {
    let cluster = Cluster::of_nodes(&["a", "b", "c"].map(|name| theirs(name, 30, 2))).await;
    let summary = printed(&cluster, &["c", "a"]);
    let names: Vec<&str> = summary
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(names[..3], ["NAME", "a", "c"], "{summary}");
    assert!(summary.contains("0/60 (0%)"), "{summary}");
    inspect(&cluster, &["a", "d"]).assert().code(1);
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_annotations_are_shown_as_pending_and_break_nothing() {
    let cluster = Cluster::of_nodes(&[theirs("node", 30, 2)]).await;
    let place = async |name: &str, annotations: Value| {
        let pod = pod(name, "node", &[gib("3")], &annotations);
        cluster.add_pod(&pod).await;
    };
    for (name, index) in [
        ("minus", "-1"),
        ("far", "7"),
        ("word", "first"),
        ("huge", "99999999999999999999"),
    ] {
        place(name, on_card(index)).await;
    }
    // In the newer annotation card -1 means no card too; an annotation with something else than numbers is ignored.
    for (name, allocation) in [
        ("none", r#"{"0":{"-1":3}}"#),
        ("letters", r#"{"0":{"x":3}}"#),
        ("container", r#"{"c":{"0":3}}"#),
        ("null", r#"{"0":null}"#),
    ] {
        place(name, json!({names::aliyun::ALLOCATION: allocation})).await;
    }
    let usage: Value = serde_json::from_str(&printed(&cluster, &["-o", "json"])).unwrap();
    assert_eq!(usage["nodes"][0]["pending"], 24);
    assert_eq!(usage["nodes"][0]["allocated"], 24);
    assert_eq!(usage["nodes"][0]["cards"][0]["allocated"], 0);
}

/// A node with our agent: a small card and a large one.
fn ours(name: &str, aliyun: Option<u64>) -> Value {
    let mut node = match aliyun {
        Some(memory) => theirs(name, memory, 2),
        None => json!({"metadata": {"name": name}, "status": {}}),
    };
    node["metadata"]["annotations"] = inventory_of(name, &[15_109, 81_559]);
    node
}

#[tokio::test(flavor = "multi_thread")]
async fn cards_of_several_sizes_have_their_own_totals() {
    let cluster = Cluster::of_nodes(&[ours("mixed", None)]).await;
    let whole = json!({"gpushare.io/gpu": "1"});
    for (name, limits, card) in [
        ("gib", gib("3"), "GPU-mixed-0"),
        ("mib", share(2_500), "GPU-mixed-0"),
        ("whole", whole, "GPU-mixed-1"),
    ] {
        cluster.place(name, "mixed", &limits, card).await;
    }
    insta::assert_snapshot!("mixed_summary", printed(&cluster, &[]));
    insta::assert_snapshot!("mixed_details", printed(&cluster, &["-d", "mixed"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_counts_in_gib_is_shown_in_gib_where_that_is_exact() {
    let nodes = [ours("mixed", Some(93)), theirs("theirs", 30, 2)];
    let cluster = Cluster::of_nodes(&nodes).await;
    let (card, limits) = ("GPU-mixed-1", gib("3"));
    cluster.place("gib", "mixed", &limits, card).await;
    let cells = "0/14                   3/79                   3/93";
    assert_parts(&printed(&cluster, &[]), &["GPU Memory(GiB)", cells]);
    cluster.place("mib", "mixed", &share(2_500), card).await;
    let parts = ["GPU Memory(MiB)", "5572/81559", "0/15360"];
    assert_parts(&printed(&cluster, &[]), &parts);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_our_nodes_pods_of_the_predecessor_and_pods_without_a_record_are_seen() {
    let cluster = Cluster::of_nodes(&[ours("mixed", Some(93))]).await;
    for (name, annotations) in [("moved", on_card("1")), ("forced", json!({}))] {
        let pod = pod(name, "mixed", &[gib("3")], &annotations);
        cluster.add_pod(&pod).await;
    }
    insta::assert_snapshot!("moved_details", printed(&cluster, &["-d"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_get_an_object() {
    let cluster = Cluster::of_nodes(&[theirs("node", 30, 2)]).await;
    let one = pod("one", "node", &[gib("3")], &on_card("1"));
    cluster.add_pod(&one).await;
    insta::assert_snapshot!("object", printed(&cluster, &["-o", "json"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_what_failed_and_what_to_do() {
    let cluster = Cluster::start().await;
    let unknown = stderr(&mut inspect(&cluster, &["nosuch"]), 1);
    let part = "there is no node \"nosuch\"; kubectl get nodes lists them";
    assert_parts(&unknown, &[part]);
    fs::remove_file(cluster.kubeconfig()).unwrap();
    let nowhere = stderr(&mut inspect(&cluster, &[]), 1);
    let part = "cannot find a cluster: give --kubeconfig or set KUBECONFIG";
    assert_parts(&nowhere, &[part]);
}
