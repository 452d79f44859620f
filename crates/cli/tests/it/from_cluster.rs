//! `kubectl gpushare simulate --from-cluster` against an API server.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::cluster::{Cluster, inventory_of};
use crate::said::{assert_parts, object, stderr, stdout};

const DEPLOYMENT: &str = "
kind: Deployment
spec:
  template:
    spec:
      containers:
      - name: train
        resources:
          requests: {cpu: 500m, memory: 1Gi}
          limits: {aliyun.com/gpu-mem: 3}
";

fn simulate(cluster: &Cluster, manifest: &Path) -> Command {
    let mut command = cluster.gpushare(&["simulate", "--from-cluster"]);
    command
        .arg("--file")
        .arg(manifest)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig());
    command
}

fn node(name: &str, gib: &[u64], cordoned: bool) -> Value {
    let mib: Vec<u64> = gib.iter().map(|gib| gib * 1024).collect();
    json!({
        "metadata": {"name": name, "annotations": inventory_of(name, &mib)},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}},
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_how_many_more_fit_where_and_why_not_one_more() {
    let nodes = [
        node("a", &[8, 8], false),
        node("b", &[4], false),
        node("c", &[80], true),
    ];
    let cluster = Cluster::of_nodes(&nodes).await;
    let manifest = cluster.write("deployment.yaml", DEPLOYMENT);
    let text = stdout(&mut simulate(&cluster, &manifest));
    assert!(text.starts_with("5 more pods would fit now\n"), "{text}");
    let parts = [
        "     4  a\n",
        "     1  b\n",
        "no card has 3072 MiB of memory free",
    ];
    assert_parts(&text, &parts);
    let json = object(simulate(&cluster, &manifest).args(["-o", "json"]), 0);
    assert_eq!(json["fit"], 5);
    assert_eq!(json["nodes"], json!([["a", 4], ["b", 1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_with_their_remedy() {
    let cluster = Cluster::of_nodes(&[node("a", &[8], false)]).await;
    let refused = |manifest: &Path, part: &str| {
        let complaint = stderr(&mut simulate(&cluster, manifest), 1);
        assert_parts(&complaint, &[part]);
    };
    let plain = DEPLOYMENT.replace("aliyun.com/gpu-mem: 3", "cpu: 1");
    let wrong = DEPLOYMENT.replace("gpu-mem: 3", "gpu-mem: 3G");
    for (name, text, part) in [
        ("plain.yaml", plain.as_str(), "asks for no card"),
        ("wrong.yaml", &wrong, "the unit is GiB"),
        ("empty.yaml", "kind: ConfigMap", "has no containers"),
    ] {
        refused(&cluster.write(name, text), part);
    }
    refused(Path::new("/nonexistent"), "cannot read");
    let manifest = cluster.write("deployment.yaml", DEPLOYMENT);
    fs::remove_file(cluster.kubeconfig()).unwrap();
    refused(&manifest, "cannot use the kubeconfig");
}
