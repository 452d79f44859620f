//! `kubectl gpushare doctor --probe`: a pod that asks for no card reports whether it got one.

use std::fs;
use std::path::Path;

use gpushare_apiserver::{Answer, On, Times};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::{doctor, found};
use crate::cluster::Cluster;
use crate::why::node;

const CHECK: &str = "unbooked cards";

async fn with_two_nodes() -> Cluster {
    let cluster = Cluster::start().await;
    prepare(&cluster).await;
    cluster
}

async fn prepare(cluster: &Cluster) {
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.add_node(&node("b", &[16_384])).await;
    let system = json!({"metadata": {"name": "gpushare-system"}});
    cluster
        .create(
            Api::<k8s_openapi::api::core::v1::Namespace>::all(cluster.client()),
            &system,
        )
        .await;
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

/// The check's status and message. Also asserts that no pod is left behind.
async fn probed(cluster: &Cluster, flags: &[&str]) -> (String, String) {
    let arguments = [&["-o", "json", "--probe", "busybox:1"], flags].concat();
    let output = doctor(cluster, &arguments).code(1).get_output().clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left = probes(cluster).list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty(), "{left:?}");
    let (status, message) = found(&report, CHECK);
    (status.to_owned(), message.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_runtime_gives_cards_to_everybody_is_a_failure() {
    let cluster = with_two_nodes().await;
    let closed = directory(&["null", "nvidiactl", "termination-log"]);
    let open = directory(&["nvidia0", "nvidia1", "nvidiactl", "termination-log"]);
    let runtime = runtime(&cluster, move |spec| {
        let container = &spec["containers"][0];
        let all = json!([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]);
        let asks_nothing = container["resources"]["limits"].is_null();
        match spec["nodeName"].as_str() {
            Some("b") if asks_nothing && container["env"] == all => run(spec, open.path()),
            _ => run(spec, closed.path()),
        }
    });
    let (status, message) = probed(&cluster, &[]).await;
    runtime.abort();
    assert_eq!(status, "fail");
    assert_eq!(
        message,
        "a container that asks for no card sees cards on b (/dev/nvidia0 /dev/nvidia1)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_give_nothing_to_those_who_ask_for_nothing_are_in_order() {
    let cluster = with_two_nodes().await;
    let closed = directory(&["termination-log"]);
    let runtime = runtime(&cluster, move |spec| run(spec, closed.path()));
    let (status, message) = probed(&cluster, &[]).await;
    runtime.abort();
    assert_eq!(status, "ok");
    assert_eq!(message, "no card is seen without asking, tried on 2 nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_could_not_say_what_it_saw_proves_nothing() {
    let cluster = with_two_nodes().await;
    let runtime = runtime(&cluster, |_| String::new());
    let (status, message) = probed(&cluster, &[]).await;
    runtime.abort();
    assert_eq!(status, "warn");
    let part = "b (the container did not say that it looked: \"\")";
    assert!(message.contains(part), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_classes_that_cannot_be_listed_are_told() {
    let cluster = Cluster::start().await;
    prepare(&cluster).await;
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
    let (status, message) = probed(&cluster, &[]).await;
    assert_eq!(status, "fail");
    let part = "a with runtimeClassName cards (/dev/nvidia0)";
    assert!(message.contains(part), "{message}");

    cluster.server().faults().answer(
        On::any().resource("runtimeclasses.node.k8s.io"),
        Times::Always,
        Answer::Forbidden,
    );
    let (status, message) = probed(&cluster, &[]).await;
    runtime.abort();
    assert_eq!(status, "warn");
    let part = "RuntimeClasses, which cannot be listed (";
    assert!(message.contains(part), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_does_not_run_proves_nothing() {
    let cluster = with_two_nodes().await;
    let (status, message) = probed(&cluster, &["--probe-timeout", "1s"]).await;
    assert_eq!(status, "warn");
    assert!(
        message.contains("a (the pod has not ended in time: no kubelet has started it)"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_created_unless_it_is_asked_for() {
    let cluster = with_two_nodes().await;
    let before = cluster.server().requests().writes();
    let output = doctor(&cluster, &["-o", "json"])
        .code(1)
        .get_output()
        .clone();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    assert!(checks.iter().all(|check| check["name"] != CHECK));
    let left = probes(&cluster).list(&ListParams::default()).await.unwrap();
    assert!(left.items.is_empty());
    // The webhook's trial pod is a dry run, and is not sent where no webhook is configured.
    assert_eq!(cluster.server().requests().writes(), before);
}
