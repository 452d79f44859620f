//! Pods as the scenarios write them.

use std::ops::Range;

use serde_json::{Value, json};

pub const IMAGE: &str = "gpushare.test/busybox:1";

/// Prints its environment, then runs until it is asked to end.
pub const RUN: &str = "env; trap 'exit 0' TERM; while true; do sleep 3600 & wait $!; done";

/// A pod with one container `c` with these limits.
pub fn pod(name: &str, limits: Value) -> Value {
    running(name, RUN, limits)
}

/// A pod whose container runs `script`.
pub fn running(name: &str, script: &str, limits: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "scenario"}},
        "spec": {
            "terminationGracePeriodSeconds": 30,
            "containers": [container("c", script, limits)],
        },
    })
}

/// A list of pods that each ask for a GiB, named `PREFIX-NUMBER`. A network of its own would only cost each pod time.
pub fn crowd(prefix: &str, numbers: Range<usize>, change: impl Fn(&mut Value)) -> Value {
    let pods = numbers.map(|number| {
        let mut pod = pod(&format!("{prefix}-{number}"), aliyun(1));
        pod["spec"]["hostNetwork"] = json!(true);
        change(&mut pod);
        pod
    });
    list(&pods.collect::<Vec<_>>())
}

/// Objects that are applied at once.
pub fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

pub fn budget(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Keeps one pod with this label `app`.
pub fn disruption_budget(app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": app},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    })
}

pub fn priority_class(name: &str, value: i64) -> Value {
    json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": name}, "value": value,
    })
}

pub fn quota(name: &str, hard: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": name}, "spec": {"hard": hard},
    })
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "callers build the limits in place"
)]
pub fn container(name: &str, script: &str, limits: Value) -> Value {
    json!({
        "name": name,
        "image": IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"limits": limits},
    })
}

pub fn stateful_set(name: &str, replicas: u32, limits: Value) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container("c", RUN, limits)]},
            },
        },
    })
}

pub fn aliyun(gib: u64) -> Value {
    json!({"aliyun.com/gpu-mem": gib})
}

pub fn gpushare(mib: u64) -> Value {
    json!({"gpushare.io/gpu": 1, "gpushare.io/gpu-mem": mib})
}

/// The limits with one more resource.
#[must_use]
pub fn and(mut limits: Value, resource: &str, amount: u64) -> Value {
    limits[resource] = json!(amount);
    limits
}

/// The pod with an annotation.
#[must_use]
pub fn annotated(mut pod: Value, name: &str, value: &str) -> Value {
    pod["metadata"]["annotations"][name] = json!(value);
    pod
}
