use gpushare_core::gpu::{self, AliyunUnit};
use serde_json::{Value, json};

use super::*;

fn node(spec: &Value) -> Node {
    let node = json!({"metadata": {"name": "a"}, "spec": spec});
    Node::read(&serde_json::from_value(node).unwrap())
}

fn told(node: &Node) -> Vec<String> {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": []}});
    let pod = Pod::read(pod, &gpu::dialects(AliyunUnit::GiB)).unwrap();
    placing(node, &pod)
        .iter()
        .map(Obstacle::to_string)
        .collect()
}

#[test]
fn a_cordon_goes_with_its_taint() {
    let taints = json!([{"key": CORDON, "effect": "NoSchedule"}]);
    let mut cordoned = node(&json!({"unschedulable": true, "taints": taints}));
    assert_eq!(told(&cordoned), ["cordoned"]);
    cordoned.uncordon();
    assert!(told(&cordoned).is_empty());
    let tainted = node(&json!({"taints": taints}));
    let expected = format!("the taint {CORDON}:NoSchedule is not tolerated by the pod");
    assert_eq!(told(&tainted), [expected]);
}

#[test]
fn a_node_is_not_ready_once() {
    let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
    let [not_ready, unreachable] = NOT_READY;
    let taints = json!([
        taint("gpus", "NoSchedule"),
        taint(not_ready, "NoSchedule"),
        taint(unreachable, "NoExecute"),
    ]);
    let expected = [
        "not ready",
        "the taint gpus:NoSchedule is not tolerated by the pod",
    ];
    assert_eq!(told(&node(&json!({"taints": taints}))), expected);
}
