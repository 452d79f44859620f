//! `kubectl gpushare simulate --from-cluster` against an API server.

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, inventory_of};

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

struct World {
    cluster: Cluster,
    directory: TempDir,
}

impl World {
    async fn start(nodes: &[(&str, &[u64], bool)]) -> Self {
        let world = Self {
            cluster: Cluster::start().await,
            directory: tempfile::tempdir().unwrap(),
        };
        for (name, cards, cordoned) in nodes {
            world.cluster.add_node(&node(name, cards, *cordoned)).await;
        }
        world
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, manifest: &Path) -> Command {
        let mut command = Command::cargo_bin("kubectl-gpushare").unwrap();
        command
            .args(["simulate", "--from-cluster", "--file"])
            .arg(manifest)
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig());
        command
    }
}

fn node(name: &str, gib: &[u64], cordoned: bool) -> Value {
    let mib: Vec<u64> = gib.iter().map(|gib| gib * 1024).collect();
    json!({
        "metadata": {"name": name, "annotations": inventory_of(name, &mib)},
        "spec": {"unschedulable": cordoned},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi"}},
    })
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_how_many_more_fit_where_and_why_not_one_more() {
    let nodes: [(&str, &[u64], bool); 3] = [
        ("a", &[8, 8], false),
        ("b", &[4], false),
        ("c", &[80], true),
    ];
    let world = World::start(&nodes).await;
    let manifest = world.write("deployment.yaml", DEPLOYMENT);
    let output = world
        .command(&manifest)
        .assert()
        .success()
        .get_output()
        .clone();
    let text = text(output.stdout);
    assert!(text.starts_with("5 more pods would fit now\n"), "{text}");
    assert!(
        text.contains("     4  a\n") && text.contains("     1  b\n"),
        "{text}"
    );
    assert!(
        text.contains("no card has 3072 MiB of memory free"),
        "{text}"
    );
    let output = world
        .command(&manifest)
        .args(["-o", "json"])
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["fit"], 5);
    assert_eq!(json["nodes"], json!([["a", 4], ["b", 1]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_named_with_their_remedy() {
    let world = World::start(&[("a", &[8], false)]).await;
    let failed = |manifest: &Path| {
        let output = world
            .command(manifest)
            .assert()
            .code(1)
            .get_output()
            .clone();
        text(output.stderr)
    };
    let plain = world.write(
        "plain.yaml",
        &DEPLOYMENT.replace("aliyun.com/gpu-mem: 3", "cpu: 1"),
    );
    assert!(failed(&plain).contains("asks for no card"));
    let wrong = world.write(
        "wrong.yaml",
        &DEPLOYMENT.replace("gpu-mem: 3", "gpu-mem: 3G"),
    );
    assert!(failed(&wrong).contains("the unit is GiB"));
    let empty = world.write("empty.yaml", "kind: ConfigMap");
    assert!(failed(&empty).contains("has no containers"));
    assert!(failed(Path::new("/nonexistent")).contains("cannot read"));
    let manifest = world.write("deployment.yaml", DEPLOYMENT);
    fs::remove_file(world.cluster.kubeconfig()).unwrap();
    assert!(failed(&manifest).contains("cannot use the kubeconfig"));
}
