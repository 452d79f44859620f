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
        room: allocatable(&node),
        taken: Amounts::new(),
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
    obstacle(&pod, &requests(&pod), host).map(|obstacle| obstacle.reason)
}

fn asking(name: &str, amount: &str) -> Value {
    json!({"name": name, "resources": {"requests": {"x.io/gpu": amount}}})
}

#[test]
fn what_is_asked_must_be_free() {
    let mut host = node(&json!({}));
    let two = json!({"containers": [asking("a", "1"), asking("b", "1")]});
    assert_eq!(reason(&two, &host), None);
    host.taken.insert("x.io/gpu".to_owned(), 2000);
    assert_eq!(reason(&two, &host).unwrap(), "Insufficient x.io/gpu");
    let pod = pod(&json!({"containers": [asking("a", "4")]}));
    let never = obstacle(&pod, &requests(&pod), &host).unwrap();
    assert!(!never.evictable, "nobody's going makes a node larger");
}

#[test]
fn an_init_container_counts_beside_the_sidecars_before_it_and_not_beside_the_others() {
    let mut sidecar = asking("s", "1");
    sidecar["restartPolicy"] = json!("Always");
    let spec = json!({
        "initContainers": [sidecar, asking("i", "2")],
        "containers": [asking("c", "1")],
    });
    assert_eq!(requests(&pod(&spec))["x.io/gpu"], 3000);
}

#[test]
fn taints_repel_those_that_do_not_tolerate_them() {
    let host = node(&json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}));
    let plain = json!({});
    assert!(reason(&plain, &host).unwrap().contains("{k: v}"));
    for toleration in [
        json!({"key": "k", "operator": "Exists"}),
        json!({"operator": "Exists"}),
        json!({"key": "k", "value": "v", "effect": "NoSchedule"}),
    ] {
        assert_eq!(reason(&json!({"tolerations": [toleration]}), &host), None);
    }
    let other = json!({"tolerations": [{"key": "k", "value": "w"}]});
    assert!(reason(&other, &host).is_some());
    let closed = node(&json!({"unschedulable": true}));
    assert!(reason(&plain, &closed).unwrap().contains("unschedulable"));
}

#[test]
fn selectors_and_required_affinity_choose_nodes() {
    let host = node(&json!({}));
    let affinity = |rule: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
            {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}}})
    };
    for (rule, fits) in [
        (
            json!({"key": "pool", "operator": "In", "values": ["train"]}),
            true,
        ),
        (
            json!({"key": "pool", "operator": "NotIn", "values": ["train"]}),
            false,
        ),
        (
            json!({"key": "size", "operator": "Gt", "values": ["6"]}),
            true,
        ),
        (
            json!({"key": "size", "operator": "Lt", "values": ["6"]}),
            false,
        ),
        (json!({"key": "none", "operator": "DoesNotExist"}), true),
        (json!({"key": "none", "operator": "Exists"}), false),
    ] {
        assert_eq!(
            reason(&affinity(rule.clone()), &host).is_none(),
            fits,
            "{rule}"
        );
    }
    assert!(reason(&json!({"nodeSelector": {"pool": "serve"}}), &host).is_some());
}
