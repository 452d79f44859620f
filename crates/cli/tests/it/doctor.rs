//! `kubectl gpushare doctor` against an API server.

mod probe;

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::why::{node, share};

fn doctor(cluster: &Cluster, arguments: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"))
        .arg("doctor")
        .args(arguments)
        .env("KUBECONFIG", cluster.kubeconfig())
        .assert()
}

fn report(cluster: &Cluster, code: i32) -> Value {
    let output = doctor(cluster, &["-o", "json"])
        .code(code)
        .get_output()
        .clone();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The status and the message of a check.
fn found<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    let check = check.unwrap_or_else(|| panic!("no {name} in {report:#}"));
    (
        check["status"].as_str().unwrap(),
        check["message"].as_str().unwrap(),
    )
}

fn fix<'a>(report: &'a Value, name: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == name);
    check.unwrap()["fix"].as_str().unwrap()
}

async fn lease(cluster: &Cluster, renewed: &str) {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "gpushare-extender", "namespace": "gpushare-system"},
        "spec": {"holderIdentity": "one_1", "leaseDurationSeconds": 15, "renewTime": renewed},
    });
    let path = "/apis/coordination.k8s.io/v1/namespaces/gpushare-system/leases";
    cluster.create_at(path, &lease).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_cluster_is_told_what_is_missing_and_fails() {
    let cluster = Cluster::start().await;
    let output = doctor(&cluster, &[]).code(1).get_output().clone();
    let text = String::from_utf8(output.stdout).unwrap();
    // The snapshot leaves out the first line, which has the server's version.
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("ok    API server"), "{first}");
    insta::assert_snapshot!("doctor_empty", rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_the_json_is_kept() {
    let cluster = Cluster::start().await;
    let report = report(&cluster, 1);
    assert_eq!(report["ok"], false);
    for check in report["checks"].as_array().unwrap() {
        let mut fields: Vec<&str> = check
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        fields.retain(|field| *field != "fix");
        assert_eq!(fields, ["message", "name", "status"], "{check}");
        assert_eq!(check["fix"].is_string(), check["status"] != "ok", "{check}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_and_their_totals_are_compared() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("good", &[16_384])).await;
    assert_eq!(
        found(&report(&cluster, 1), "node agents"),
        ("ok", "1 cards on 1 nodes")
    );
    assert_eq!(found(&report(&cluster, 1), "totals").0, "ok");
    let mut short = node("short", &[16_384]);
    short["status"]["allocatable"]["gpushare.io/gpu-mem"] = json!("1024");
    short["status"]["allocatable"]["gpushare.io/gpu"] = json!("0");
    cluster.add_node(&short).await;
    let report = report(&cluster, 1);
    let (status, message) = found(&report, "totals");
    assert_eq!(status, "fail");
    assert!(
        message.contains("short (1024 MiB offered, 16384 on its cards)"),
        "{message}"
    );
    let (status, message) = found(&report, "device plugin");
    assert!(status == "fail" && message.contains("short"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_said_to_have_cards_and_shows_none_is_named() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("good", &[16_384])).await;
    let metadata = json!({"name": "silent", "labels": {"nvidia.com/gpu.present": "true"}});
    cluster
        .add_node(&json!({"metadata": metadata, "status": {}}))
        .await;
    let report = report(&cluster, 1);
    let (status, message) = found(&report, "node agents");
    assert!(status == "warn" && message.contains("silent"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_renews_is_a_failure() {
    let cluster = Cluster::start().await;
    let (status, message) = (&report(&cluster, 1), "extender's lease");
    assert_eq!(found(status, message).0, "warn");
    lease(&cluster, "2020-01-01T00:00:00.000000Z").await;
    let report = report(&cluster, 1);
    let (status, message) = found(&report, "extender's lease");
    assert!(
        status == "fail" && message.contains("one_1 holds it and has not renewed"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_tell_whether_the_scheduler_asks_and_who_else_hands_out_cards() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.place("good", "a", &share(1_024), "GPU-a-0").await;
    let before = report(&cluster, 1);
    assert_eq!(
        found(&before, "kube-scheduler"),
        ("ok", "1 pods hold cards that the extender chose")
    );
    let past = crate::cluster::pod("past", "a", &[share(1_024)], &json!({}));
    cluster.add_pod(&past).await;
    let other = crate::cluster::pod("gpushare-schd-extender-x", "a", &[json!({})], &json!({}));
    cluster.add_pod(&other).await;
    let report = report(&cluster, 1);
    let (status, message) = found(&report, "kube-scheduler");
    assert!(
        status == "fail" && message.contains("take the nodes' totals: default/past"),
        "{message}"
    );
    let fix = fix(&report, "kube-scheduler");
    assert!(
        fix.starts_with("delete them, their spec.nodeName was written by hand"),
        "the scheduler asks, it chose a card for another pod: {fix}"
    );
    let (status, message) = found(&report, "predecessors");
    assert!(
        status == "warn" && message.contains("Aliyun's gpushare scheduler extender"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_empty_record_nor_an_incomplete_request_hides_a_pod_past_the_scheduler() {
    let cluster = Cluster::start().await;
    cluster.add_node(&node("a", &[16_384])).await;
    cluster.place("good", "a", &share(1_024), "GPU-a-0").await;
    let record = json!({"gpushare.io/allocation": ""});
    let memory = |resource: &str| json!({resource: "1024"});
    let none = json!({});
    for (name, limits, annotations) in [
        ("empty", share(1_024), &record),
        ("incomplete", memory("gpushare.io/gpu-mem"), &none),
        // This one may be managed by HAMi itself, so it is not reported.
        ("other", memory("nvidia.com/gpumem"), &none),
    ] {
        let pod = crate::cluster::pod(name, "a", &[limits], annotations);
        cluster.add_pod(&pod).await;
    }
    let report = report(&cluster, 1);
    let expected = "2 pods have a node and no card was chosen for them, so they get none and take the nodes' totals: default/empty, default/incomplete";
    assert_eq!(found(&report, "kube-scheduler"), ("fail", expected));
    let fix = fix(&report, "kube-scheduler");
    assert!(fix.starts_with("delete them"), "{fix}");
}
