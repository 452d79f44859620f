//! Each reason why a pod waits, and the first change that is suggested. `testing/e2e/tests/why` shows with a real
//! scheduler that the pod is scheduled after each of these changes.

use std::fmt::Write as _;

use gpushare_core::names;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::why::{node, said, share, waiting};

struct Case {
    name: &'static str,
    node: Value,
    holder: Option<Value>,
    pod: Value,
}

fn case(name: &'static str, node: Value, pod: Value) -> Case {
    Case {
        name,
        node,
        holder: None,
        pod,
    }
}

fn held(name: &'static str, holder: Value, pod: Value) -> Case {
    Case {
        holder: Some(holder),
        ..case(name, one(), pod)
    }
}

fn one() -> Value {
    node("a", &[16_384])
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let field = field.replace("~1", "/");
    let parent = object.pointer_mut(parent).unwrap();
    parent[field] = value;
    object
}

fn annotated(name: &str, value: &str) -> Value {
    let pod = waiting("p", &share(1_024));
    with(pod, "/metadata/annotations", json!({name: value}))
}

fn spec(field: &str, value: Value) -> Value {
    with(
        waiting("p", &share(1_024)),
        &format!("/spec/{field}"),
        value,
    )
}

fn requests(requests: &Value) -> Value {
    let pod = waiting("p", &share(1_024));
    with(
        pod,
        "/spec/containers/0/resources/requests",
        requests.clone(),
    )
}

fn asks(limits: &Value) -> Value {
    waiting("p", limits)
}

/// A node with this spec.
fn specified(spec: Value) -> Value {
    with(one(), "/spec", spec)
}

fn of_cards() -> Vec<Case> {
    let mut sick = one();
    let inventory = sick["metadata"]["annotations"][names::CARDS].as_str();
    let inventory = inventory
        .unwrap()
        .replace("\"healthy\":true", "\"healthy\":false");
    sick["metadata"]["annotations"][names::CARDS] = json!(inventory);
    let whole = json!({"gpushare.io/gpu": "1"});
    let two = json!({"gpushare.io/gpu": "2", "gpushare.io/gpu-mem": "1024"});
    let core =
        json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "1", "gpushare.io/gpu-core": "60"});
    let aliyun = json!({"aliyun.com/gpu-mem": "8"});
    vec![
        held("room", share(12_288), asks(&share(8_192))),
        held("whole card", share(1), asks(&whole)),
        held("compute", core.clone(), asks(&core)),
        held("Aliyun's memory", share(12_288), asks(&aliyun)),
        case("card too small", one(), asks(&share(32_768))),
        case("too few cards", one(), asks(&two)),
        case("unhealthy card", sick, asks(&share(1_024))),
        case("model", one(), annotated(names::CARD_MODELS, "H100")),
        case("card by id", one(), annotated(names::CARD_IDS, "GPU-none")),
    ]
}

fn of_requests() -> Vec<Case> {
    let unit = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "4Gi"});
    let no_count = json!({"gpushare.io/gpu-mem": "1024"});
    let no_amount = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-core": "30"});
    let mut both = share(1_024);
    both["aliyun.com/gpu-mem"] = json!("1");
    vec![
        case("policy", one(), annotated(names::POLICY, "nicest")),
        case("unit", one(), asks(&unit)),
        case("no count", one(), asks(&no_count)),
        case("no amount", one(), asks(&no_amount)),
        case("two dialects", one(), asks(&both)),
    ]
}

fn of_nodes() -> Vec<Case> {
    let taint = |key: &str| specified(json!({"taints": [{"key": key, "effect": "NoSchedule"}]}));
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}});
    let selector = json!({"pool": "train"});
    let no_total = with(one(), "/status/allocatable/gpushare.io~1gpu", json!("0"));
    let host = json!({"cpu": "8", "memory": "64Gi", "pods": "110"});
    let no_cards = json!({"metadata": {"name": "a"}, "status": {"allocatable": host}});
    let small = || asks(&share(1));
    vec![
        case(
            "cordoned",
            specified(json!({"unschedulable": true})),
            small(),
        ),
        case("taint", taint("gpus"), small()),
        case("not ready", taint("node.kubernetes.io/not-ready"), small()),
        case("node selector", one(), spec("nodeSelector", selector)),
        case("node affinity", one(), spec("affinity", affinity)),
        case("CPU", one(), requests(&json!({"cpu": "100"}))),
        case("memory", one(), requests(&json!({"memory": "65Gi"}))),
        case("no agent's total", no_total, small()),
        case("no agent", no_cards, small()),
    ]
}

fn before_nodes() -> Vec<Case> {
    let gate = json!([{"name": "example.com/hold"}]);
    let unseen = json!({"phase": "Pending"});
    let nobody = with(spec("schedulerName", json!("nobody")), "/status", unseen);
    vec![
        case("gate", one(), spec("schedulingGates", gate)),
        case("no such node", one(), spec("nodeName", json!("atlantis"))),
        case("node chosen by hand", one(), spec("nodeName", json!("a"))),
        case("another scheduler", one(), nobody),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_is_told_with_what_would_help() {
    let mut told = String::new();
    let cases = [of_cards(), of_requests(), of_nodes(), before_nodes()];
    for case in cases.into_iter().flatten() {
        let cluster = Cluster::of_nodes(std::slice::from_ref(&case.node)).await;
        if let Some(limits) = &case.holder {
            cluster.place("holder", "a", limits, "GPU-a-0").await;
        }
        cluster.add_pod(&case.pod).await;
        let _ = writeln!(told, "== {}\n{}", case.name, said(&cluster, &["p"]));
    }
    insta::assert_snapshot!(told);
}
