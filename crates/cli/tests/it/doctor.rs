//! `kubectl gpushare doctor` against an API server.

mod probe;

use serde_json::{Value, json};

use crate::cluster::{Cluster, pod};
use crate::said::{assert_parts, object};
use crate::why::{node, share};

/// The report on a cluster in which something is wrong, so that the doctor fails. All clusters of these tests lack at
/// least some parts of gpushare.
fn report(cluster: &Cluster, flags: &[&str]) -> Value {
    let mut doctor = cluster.gpushare(&["doctor", "-o", "json"]);
    object(doctor.args(flags), 1)
}

fn check<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut checks = report["checks"].as_array().unwrap().iter();
    let check = checks.find(|check| check["name"] == name);
    check.unwrap_or_else(|| panic!("no {name} in {report:#}"))
}

/// The status and the message of a check.
fn found<'a>(report: &'a Value, name: &str) -> (&'a str, &'a str) {
    let check = check(report, name);
    let text = |field: &str| check[field].as_str().unwrap();
    (text("status"), text("message"))
}

/// Asserts the status of a check, and a part of its message.
#[track_caller]
fn assert_found(report: &Value, name: &str, status: &str, part: &str) {
    let (found, message) = found(report, name);
    assert_eq!(found, status, "{message}");
    assert_parts(message, &[part]);
}

fn fix<'a>(report: &'a Value, name: &str) -> &'a str {
    check(report, name)["fix"].as_str().unwrap()
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
    let assert = cluster.gpushare(&["doctor"]).assert().code(1);
    let text = String::from_utf8(assert.get_output().stdout.clone()).unwrap();
    // The snapshot leaves out the first line, which has the server's version.
    let (first, rest) = text.split_once('\n').unwrap();
    assert!(first.starts_with("ok    API server"), "{first}");
    insta::assert_snapshot!("doctor_empty", rest);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_of_the_json_is_kept() {
    let cluster = Cluster::start().await;
    let report = report(&cluster, &[]);
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
    let cluster = Cluster::of_nodes(&[node("good", &[16_384])]).await;
    let before = report(&cluster, &[]);
    assert_eq!(found(&before, "node agents"), ("ok", "1 cards on 1 nodes"));
    assert_eq!(found(&before, "totals").0, "ok");
    let mut short = node("short", &[16_384]);
    short["status"]["allocatable"]["gpushare.io/gpu-mem"] = json!("1024");
    short["status"]["allocatable"]["gpushare.io/gpu"] = json!("0");
    cluster.add_node(&short).await;
    let report = report(&cluster, &[]);
    let part = "short (1024 MiB offered, 16384 on its cards)";
    assert_found(&report, "totals", "fail", part);
    assert_found(&report, "device plugin", "fail", "short");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_said_to_have_cards_and_shows_none_is_named() {
    let cluster = Cluster::of_nodes(&[node("good", &[16_384])]).await;
    let metadata = json!({"name": "silent", "labels": {"nvidia.com/gpu.present": "true"}});
    let silent = json!({"metadata": metadata, "status": {}});
    cluster.add_node(&silent).await;
    assert_found(&report(&cluster, &[]), "node agents", "warn", "silent");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_renews_is_a_failure() {
    let cluster = Cluster::start().await;
    let name = "extender's lease";
    assert_eq!(found(&report(&cluster, &[]), name).0, "warn");
    lease(&cluster, "2020-01-01T00:00:00.000000Z").await;
    let part = "one_1 holds it and has not renewed";
    assert_found(&report(&cluster, &[]), name, "fail", part);
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_tell_whether_the_scheduler_asks_and_who_else_hands_out_cards() {
    let cluster = Cluster::of_nodes(&[node("a", &[16_384])]).await;
    cluster.place("good", "a", &share(1_024), "GPU-a-0").await;
    let before = report(&cluster, &[]);
    assert_eq!(
        found(&before, "kube-scheduler"),
        ("ok", "1 pods hold cards that the extender chose")
    );
    let past = pod("past", "a", &[share(1_024)], &json!({}));
    cluster.add_pod(&past).await;
    let other = pod("gpushare-schd-extender-x", "a", &[json!({})], &json!({}));
    cluster.add_pod(&other).await;
    let report = report(&cluster, &[]);
    let message = "take the nodes' totals: default/past";
    assert_found(&report, "kube-scheduler", "fail", message);
    let fix = fix(&report, "kube-scheduler");
    assert!(
        fix.starts_with("delete them, their spec.nodeName was written by hand"),
        "the scheduler asks, it chose a card for another pod: {fix}"
    );
    let message = "Aliyun's gpushare scheduler extender";
    assert_found(&report, "predecessors", "warn", message);
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_an_empty_record_nor_an_incomplete_request_hides_a_pod_past_the_scheduler() {
    let cluster = Cluster::of_nodes(&[node("a", &[16_384])]).await;
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
        let pod = pod(name, "a", &[limits], annotations);
        cluster.add_pod(&pod).await;
    }
    let report = report(&cluster, &[]);
    let expected = "2 pods have a node and no card was chosen for them, so they get none and take the nodes' totals: default/empty, default/incomplete";
    assert_eq!(found(&report, "kube-scheduler"), ("fail", expected));
    let fix = fix(&report, "kube-scheduler");
    assert!(fix.starts_with("delete them"), "{fix}");
}
