//! `kubectl gpushare fit` against an API server.

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::why::{node, share, waiting};

fn fit(cluster: &Cluster, arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .arg("fit")
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .assert()
}

fn said(cluster: &Cluster, arguments: &[&str]) -> String {
    let output = fit(cluster, arguments).success().get_output().clone();
    String::from_utf8(output.stdout).unwrap()
}

fn count(cluster: &Cluster, arguments: &[&str]) -> u64 {
    let said = said(cluster, &[arguments, &["-o", "json"]].concat());
    let report: Value = serde_json::from_str(&said).unwrap();
    report["fit"].as_u64().unwrap()
}

async fn three_nodes() -> Cluster {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[8_192, 8_192])).await;
    let mut tainted = node("b", &[8_192]);
    tainted["spec"] = json!({"taints": [{"key": "gpus", "effect": "NoSchedule"}]});
    cluster.add_node(&tainted).await;
    let mut cordoned = node("c", &[81_920]);
    cordoned["spec"] = json!({"unschedulable": true});
    cluster.add_node(&cordoned).await;
    cluster.place("holder", "a", &share(4_096), "GPU-a-0").await;
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_how_many_where_and_why_not_one_more() {
    let cluster = three_nodes().await;
    insta::assert_snapshot!("fit_text", said(&cluster, &["--mem", "3072"]));
    insta::assert_snapshot!("fit_wide", said(&cluster, &["--mem", "3072", "-o", "wide"]));
    insta::assert_snapshot!("fit_json", said(&cluster, &["--mem", "3072", "-o", "json"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_is_told_by_flags() {
    let cluster = three_nodes().await;
    assert_eq!(count(&cluster, &["--mem", "4096"]), 3);
    assert_eq!(count(&cluster, &["--mem", "1024", "--cores", "60"]), 2);
    assert_eq!(count(&cluster, &["--mem", "4096", "--count", "2"]), 1);
    assert_eq!(count(&cluster, &["--count", "1"]), 1);
    assert_eq!(count(&cluster, &["--mem", "4096", "--cpu", "5"]), 1);
    assert_eq!(count(&cluster, &["--mem", "4096", "--memory", "60Gi"]), 1);
    assert_eq!(count(&cluster, &["--mem", "99999"]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manifest_may_use_nodes_that_others_may_not() {
    let cluster = three_nodes().await;
    let mut pod = waiting("p", &share(8_192));
    let file = cluster.write("p.yaml", &pod.to_string());
    let file = file.to_str().unwrap();
    assert_eq!(count(&cluster, &["-f", file]), 1);
    pod["spec"]["tolerations"] = json!([{"key": "gpus", "operator": "Exists"}]);
    cluster.write("p.yaml", &pod.to_string());
    assert_eq!(count(&cluster, &["-f", file]), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shape_that_makes_no_sense_is_refused() {
    let cluster = three_nodes().await;
    let complaint = |arguments: &[&str], code| {
        let output = fit(&cluster, arguments).code(code).get_output().clone();
        String::from_utf8(output.stderr).unwrap()
    };
    let text = complaint(&["--mem", "0"], 1);
    assert!(text.contains("asks for nothing"), "{text}");
    let text = complaint(&[], 2);
    assert!(text.contains("--mem"), "{text}");
    let file = cluster.write("p.yaml", &waiting("p", &json!({})).to_string());
    let text = complaint(&["-f", file.to_str().unwrap()], 1);
    assert!(text.contains("asks for no card"), "{text}");
    let text = complaint(&["-f", "x.yaml", "--mem", "1"], 2);
    assert!(text.contains("cannot be used with"), "{text}");
}
