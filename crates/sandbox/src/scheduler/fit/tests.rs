use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn node(more: &Value) -> Host {
    let mut node = json!({
        "metadata": {"name": "n", "labels": {"pool": "train", "size": "7"}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "pods": "10", "x.io/gpu": "3"}},
    });
    for (key, value) in more.as_object().unwrap() {
        node["spec"][key] = value.clone();
    }
    let node: Node = serde_json::from_value(node).unwrap();
    Host {
        room: totals::allocatable(&node),
        taken: Totals::new(),
        node: Arc::new(node),
    }
}

fn pod(spec: &Value) -> Pod {
    let mut spec = spec.clone();
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c"}]);
    }
    serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
}

fn reason(spec: &Value, host: &Host) -> Option<String> {
    let pod = pod(spec);
    let obstacle = obstacle(&pod, &requests(&pod), host)?;
    Some(obstacle.reasons.join(", "))
}

fn asking(name: &str, amount: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"x.io/gpu": amount}}})
}

#[test]
fn what_is_asked_must_be_free() {
    let mut host = node(&json!({}));
    let two = json!({"containers": [asking("a", "1"), asking("b", "1")]});
    assert_eq!(reason(&two, &host), None);
    host.taken.insert("x.io/gpu".to_owned(), 2);
    assert_eq!(reason(&two, &host).unwrap(), "Insufficient x.io/gpu");
    let pod = pod(&json!({"containers": [asking("a", "4")]}));
    let never = obstacle(&pod, &requests(&pod), &host).unwrap();
    assert!(!never.evictable, "nobody's going makes a node larger");
}

#[test]
fn everything_that_a_node_lacks_is_a_reason_and_overhead_counts() {
    let mut host = node(&json!({}));
    host.taken.insert("pods".to_owned(), 10);
    let spec = json!({"containers": [asking("a", "4")], "overhead": {"cpu": "2001m"}});
    let expected = "Insufficient cpu, Too many pods, Insufficient x.io/gpu";
    assert_eq!(reason(&spec, &host).unwrap(), expected);
}

#[test]
fn what_keeps_the_pod_off_the_node_comes_before_what_the_node_lacks() {
    let tainted = node(&json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}));
    let closed = node(&json!({"unschedulable": true}));
    let large = json!({"containers": [asking("a", "4")]});
    assert_eq!(
        reason(&large, &tainted).unwrap(),
        "node(s) had untolerated taint(s)"
    );
    assert_eq!(
        reason(&large, &closed).unwrap(),
        "node(s) were unschedulable"
    );
    assert_eq!(
        reason(&json!({"nodeSelector": {"pool": "serve"}}), &closed).unwrap(),
        "node(s) were unschedulable"
    );
    let mut tolerant = large.clone();
    tolerant["tolerations"] = json!([{"operator": "Exists"}]);
    assert_eq!(
        reason(&tolerant, &tainted).unwrap(),
        "Insufficient x.io/gpu"
    );
    tolerant["nodeSelector"] = json!({"pool": "serve"});
    assert_eq!(
        reason(&tolerant, &tainted).unwrap(),
        "node(s) didn't match Pod's node affinity/selector"
    );
}
