//! `kubectl gpushare doctor --probe`: a pod that asks for no card reports whether it got one.

use std::fs;
use std::path::Path;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{assert_found, found, report};
use crate::cluster::Cluster;
use crate::why::node;

const CHECK: &str = "unbooked cards";

async fn with_two_nodes() -> Cluster {
    let cluster = Cluster::of_nodes(&["a", "b"].map(|name| node(name, &[16_384]))).await;
    cluster.add_namespace("gpushare-system").await;
    cluster
}

fn probes(cluster: &Cluster) -> Api<Pod> {
    Api::namespaced(cluster.client(), "gpushare-system")
}

fn spec(pod: &Pod) -> Value {
    serde_json::to_value(pod.spec.as_ref().unwrap()).unwrap()
}

/// The message of this pod's container, run with no program but the shell and with this directory as /dev.
fn run(spec: &Value, devices: &Path) -> String {
    let command = spec["containers"][0]["command"].as_array().unwrap();
    let command: Vec<&str> = command.iter().map(|word| word.as_str().unwrap()).collect();
    let devices = devices.to_str().unwrap();
    let words = command[1..].iter();
    let ran = std::process::Command::new("/bin/sh")
        .args(words.map(|word| word.replace("/dev", devices)))
        .env("PATH", "")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let said = fs::read_to_string(Path::new(devices).join("termination-log"));
    said.unwrap_or_default().replace(devices, "/dev")
}

/// A directory with these files.
fn directory(files: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for file in files {
        fs::write(directory.path().join(file), "").unwrap();
    }
    directory
}

/// Plays kubelet and runtime: each container ends at once, with this message.
fn runtime(cluster: &Cluster, says: impl Fn(&Value) -> String + Send + 'static) -> JoinHandle<()> {
    let pods = probes(cluster);
    tokio::spawn(async move {
        loop {
            for pod in pods.list(&ListParams::default()).await.unwrap() {
                let ended = json!({"exitCode": 0, "message": says(&spec(&pod))});
                let status = json!({"name": "probe", "image": "x", "imageID": "", "ready": false,
                    "restartCount": 0, "state": {"terminated": ended}});
                let status =
                    json!({"status": {"phase": "Succeeded", "containerStatuses": [status]}});
                let name = pod.metadata.name.as_deref().unwrap();
                // The pod may be deleted already.
                let _ = pods
                    .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
                    .await;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    })
}

/// What is reported after the probes. Also asserts that no pod is left behind.
async fn probed(cluster: &Cluster, flags: &[&str]) -> Value {
    let report = report(cluster, &[&["--probe", "busybox:1"], flags].concat());
    let left = probes(cluster).list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
    report
}

/// The same, while the containers end with this message.
async fn probed_with(cluster: &Cluster, says: impl Fn(&Value) -> String + Send + 'static) -> Value {
    let runtime = runtime(cluster, says);
    let report = probed(cluster, &[]).await;
    runtime.abort();
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_runtime_gives_cards_to_everybody_is_a_failure() {
    let cluster = with_two_nodes().await;
    let closed = directory(&["null", "nvidiactl", "termination-log"]);
    let open = directory(&["nvidia0", "nvidia1", "nvidiactl", "termination-log"]);
    let says = move |spec: &Value| {
        let container = &spec["containers"][0];
        let all = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
        let asks_nothing = container["resources"]["limits"].is_null();
        match spec["nodeName"].as_str() {
            Some("b") if asks_nothing && container["env"] == all => run(spec, open.path()),
            _ => run(spec, closed.path()),
        }
    };
    let report = probed_with(&cluster, says).await;
    let message = "a container that asks for no card sees cards on b (/dev/nvidia0 /dev/nvidia1)";
    assert_eq!(found(&report, CHECK), ("fail", message));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_give_nothing_to_those_who_ask_for_nothing_are_in_order() {
    let cluster = with_two_nodes().await;
    let closed = directory(&["termination-log"]);
    let report = probed_with(&cluster, move |spec| run(spec, closed.path())).await;
    let message = "no card is seen without asking, tried on 2 nodes";
    assert_eq!(found(&report, CHECK), ("ok", message));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_could_not_say_what_it_saw_proves_nothing() {
    let cluster = with_two_nodes().await;
    let report = probed_with(&cluster, |_| String::new()).await;
    let part = "b (the container did not say that it looked: \"\")";
    assert_found(&report, CHECK, "warn", part);
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_classes_that_cannot_be_listed_are_told() {
    let cluster = with_two_nodes().await;
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "cards"}, "handler": "nvidia"});
    let path = "/apis/node.k8s.io/v1/runtimeclasses";
    cluster.create_at(path, &class).await;
    let closed = directory(&["termination-log"]);
    let open = directory(&["nvidia0", "termination-log"]);
    let runtime = runtime(&cluster, move |spec| match &spec["runtimeClassName"] {
        Value::Null => run(spec, closed.path()),
        _ => run(spec, open.path()),
    });
    let part = "a with runtimeClassName cards (/dev/nvidia0)";
    assert_found(&probed(&cluster, &[]).await, CHECK, "fail", part);

    cluster.forbid("runtimeclasses.node.k8s.io");
    let report = probed(&cluster, &[]).await;
    runtime.abort();
    let part = "RuntimeClasses, which cannot be listed (";
    assert_found(&report, CHECK, "warn", part);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_does_not_run_proves_nothing() {
    let cluster = with_two_nodes().await;
    let report = probed(&cluster, &["--probe-timeout", "1s"]).await;
    let part = "a (the pod has not ended in time: no kubelet has started it)";
    assert_found(&report, CHECK, "warn", part);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_created_unless_it_is_asked_for() {
    let cluster = with_two_nodes().await;
    let before = cluster.server().requests().writes();
    let report = report(&cluster, &[]);
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["name"] != CHECK));
    let left = probes(&cluster).list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty());
    // The webhook's trial pod is a dry run, and is not sent where no webhook is configured.
    assert_eq!(cluster.server().requests().writes(), before);
}
