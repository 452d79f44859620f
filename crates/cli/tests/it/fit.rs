//! `kubectl gpushare fit` against an API server.

use serde_json::json;

use crate::cluster::Cluster;
use crate::said::{assert_parts, object, stderr, stdout};
use crate::why::{node, share, waiting};

fn said(cluster: &Cluster, arguments: &[&str]) -> String {
    stdout(cluster.gpushare(&["fit"]).args(arguments))
}

fn count(cluster: &Cluster, arguments: &[&str]) -> u64 {
    let mut fit = cluster.gpushare(&["fit", "-o", "json"]);
    object(fit.args(arguments), 0)["fit"].as_u64().unwrap()
}

async fn three_nodes() -> Cluster {
    let mut tainted = node("b", &[8_192]);
    tainted["spec"] = json!({"taints": [{"key": "gpus", "effect": "NoSchedule"}]});
    let mut cordoned = node("c", &[81_920]);
    cordoned["spec"] = json!({"unschedulable": true});
    let nodes = [node("a", &[8_192, 8_192]), tainted, cordoned];
    let cluster = Cluster::of_nodes(&nodes).await;
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
    let file = cluster.write("p.yaml", &waiting("p", &json!({})).to_string());
    for (arguments, code, part) in [
        (&["--mem", "0"][..], 1, "asks for nothing"),
        (&[], 2, "--mem"),
        (&["-f", file.to_str().unwrap()], 1, "asks for no card"),
        (&["-f", "x.yaml", "--mem", "1"], 2, "cannot be used with"),
    ] {
        let complaint = stderr(cluster.gpushare(&["fit"]).args(arguments), code);
        assert_parts(&complaint, &[part]);
    }
}
