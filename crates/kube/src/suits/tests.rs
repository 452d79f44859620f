use gpushare_core::gpu::{self, AliyunUnit};
use serde_json::{Value, json};

use super::*;

/// A pod that the scheduler could not place, with these fields in its spec.
fn suitor(spec: &Value) -> Option<Suitor> {
    let mut pod = json!({
        "spec": {"containers": [{"name": "c", "resources":
            {"requests": {"cpu": "1", "memory": "1Gi", "aliyun.com/gpu-mem": "4"}}}]},
        "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
    });
    for (key, value) in spec.as_object().unwrap() {
        pod["spec"][key] = value.clone();
    }
    let pod: Pod = serde_json::from_value(pod).unwrap();
    Suitor::of(&pod, &gpu::dialects(AliyunUnit::GiB))
}

fn node(spec: &Value) -> Node {
    let labels = json!({"zone": "a", "pool": "train"});
    serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}, "spec": spec}))
        .unwrap()
}

fn goes(pod: &Value, node_spec: &Value) -> bool {
    suitor(pod).unwrap().accepts(&node(node_spec))
}

fn affinity(key: &str, operator: &str, values: &[&str]) -> Value {
    let term = json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
    json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}})
}

#[test]
fn a_pod_goes_where_its_selectors_let_it() {
    assert!(goes(&json!({}), &json!({})));
    assert!(goes(&json!({"nodeSelector": {"zone": "a"}}), &json!({})));
    assert!(!goes(&json!({"nodeSelector": {"zone": "b"}}), &json!({})));
    for (key, operator, values, expected) in [
        ("zone", "In", &["a", "b"][..], true),
        ("zone", "In", &["b"], false),
        ("zone", "NotIn", &["b"], true),
        ("none", "Exists", &[], false),
        ("none", "DoesNotExist", &[], true),
        ("zone", "Gt", &["1"], false),
    ] {
        let pod = affinity(key, operator, values);
        assert_eq!(goes(&pod, &json!({})), expected, "{pod}");
    }
}

#[test]
fn a_node_that_is_cordoned_or_repels_the_pod_is_not_for_it() {
    assert!(!goes(&json!({}), &json!({"unschedulable": true})));
    let tainted = json!({"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]});
    assert!(!goes(&json!({}), &tainted));
    for (toleration, expected) in [
        (json!({"key": "gpu", "operator": "Exists"}), true),
        (json!({"operator": "Exists"}), true),
        (json!({"key": "gpu", "value": "yes"}), true),
        (json!({"key": "gpu", "value": "no"}), false),
        (
            json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
            false,
        ),
        (json!({}), false),
    ] {
        let pod = json!({"tolerations": [toleration]});
        assert_eq!(goes(&pod, &tainted), expected, "{pod}");
    }
    let cordon = json!({"key": placing::CORDON, "operator": "Exists"});
    let tolerant = json!({"tolerations": [cordon]});
    assert!(goes(&tolerant, &json!({"unschedulable": true})));
    let preferred = json!({"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]});
    assert!(goes(&json!({}), &preferred));
}

#[test]
fn of_a_pod_with_other_demands_nothing_is_said() {
    let anti = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
        [{"topologyKey": "zone", "labelSelector": {}}]}});
    let spread =
        json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    let port = json!([{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}]);
    let device = json!([{"name": "c", "resources": {"requests": {"example.com/other": "1"}}}]);
    for spec in [
        json!({"affinity": anti}),
        json!({"topologySpreadConstraints": spread}),
        json!({"volumes": volume}),
        json!({"containers": port}),
        json!({"containers": device}),
        json!({"overhead": {"ephemeral-storage": "1Gi"}}),
        json!({"resourceClaims": [{"name": "r", "resourceClaimName": "r"}]}),
    ] {
        assert!(suitor(&spec).is_none(), "{spec}");
    }
}

#[test]
fn a_pod_that_the_scheduler_has_not_refused_is_left_to_it() {
    let dialects = gpu::dialects(AliyunUnit::GiB);
    for status in [
        json!({}),
        json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]}),
        json!({"conditions": [{"type": "PodScheduled", "status": "True"}]}),
    ] {
        let pod = json!({"spec": {"containers": []}, "status": status});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        assert!(Suitor::of(&pod, &dialects).is_none());
    }
}
