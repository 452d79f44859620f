//! Our rulebook of kube-scheduler (`gpushare_kube::placing` and `gpushare_kube::totals`) says the same as the real
//! kube-scheduler about the same pods and nodes, word for word. The nodes are only on paper.

use anyhow::{Result, ensure};
use e2e::kubectl::wait_for_account;
use e2e::manifest::list;
use e2e::paper::{NAME_LABEL, without_nodes};
use e2e::{Kubectl, wait};
use gpushare_kube::placing::{self, CORDON};
use gpushare_kube::slim;
use gpushare_kube::totals::{self, CPU, StatedResources, Totals};
use gpushare_rig::Rig;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// What the API server adds to every new node, and no controller here removes.
const NOT_READY: &str = "node.kubernetes.io/not-ready:NoSchedule-";
const RUNTIME: &str = "heavy";

#[test]
fn the_rulebook_judges_pods_and_nodes_as_kube_scheduler_does() {
    let rig = without_nodes(String::new());
    wait_for_account(&rig, "default");
    let (mut nodes, mut pods) = by_demands();
    for (number, spec) in by_requests().into_iter().enumerate() {
        // A node with exactly what the pod requests takes it, and one with a little less of everything does not.
        let needs = needs_of(&spec);
        for (kind, less) in [("exact", 0), ("short", 1)] {
            let name = format!("{kind}-{number}");
            nodes.push(node(&name, &json!({}), &written(&needs, less)));
            pods.push(pinned(&name, &spec));
        }
    }
    rig.apply(&list(&nodes).to_string()).unwrap();
    rig.ctl(&format!("taint nodes --all {NOT_READY}")).unwrap();
    let runtime = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME}, "handler": RUNTIME, "overhead": {"podFixed": overhead()}});
    rig.apply(&runtime.to_string()).unwrap();
    for (number, pod) in pods.iter_mut().enumerate() {
        pod["metadata"]["name"] = json!(format!("p{number}"));
    }
    rig.apply(&list(&pods).to_string()).unwrap();

    let nodes: Vec<Node> = all(&rig, "nodes").unwrap();
    let bound = wait::until("kube-scheduler to judge as the rulebook does", || {
        let pods: Vec<Pod> = all(&rig, "pods")?;
        let wrong: Vec<String> = pods
            .iter()
            .filter_map(|pod| disagreement(pod, &pods, &nodes))
            .collect();
        ensure!(wrong.is_empty(), "{wrong:#?}");
        anyhow::Ok(pods.iter().filter(|pod| node_of(pod).is_some()).count())
    });
    let exact = by_requests().len();
    assert!(
        bound > exact,
        "{bound} pods are bound, {exact} of them by their requests"
    );
}

/// Nodes that keep pods off, and pods that each demand one of these nodes.
fn by_demands() -> (Vec<Value>, Vec<Value>) {
    let plain = json!({"cpu": "8", "memory": "64Gi", "pods": "110"});
    let tainted = |key: &str, value: &str, effect: &str| json!({"taints": [{"key": key, "value": value, "effect": effect}]});
    let nodes = [
        ("plain", json!({})),
        ("tainted", tainted("gpu", "5", "NoSchedule")),
        ("evicting", tainted("gpu", "5", "NoExecute")),
        ("preferred", tainted("gpu", "5", "PreferNoSchedule")),
        ("cordoned", json!({"unschedulable": true})),
        ("closed", tainted(CORDON, "", "NoSchedule")),
    ];
    let mut pods: Vec<Value> = nodes
        .iter()
        .map(|(name, _)| pinned(name, &json!({})))
        .collect();
    let tolerations = [
        json!({"key": "gpu", "value": "5"}),
        json!({"key": "gpu", "operator": "Equal", "value": "6"}),
        json!({"key": "gpu"}),
        json!({"key": "gpu", "operator": "Exists", "effect": ""}),
        json!({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}),
        json!({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}),
        json!({"key": "other", "operator": "Exists"}),
        json!({"key": CORDON, "operator": "Exists"}),
        json!({"key": CORDON, "operator": "Exists", "effect": "NoExecute"}),
        json!({"operator": "Exists"}),
    ];
    for toleration in tolerations {
        for node in ["tainted", "evicting", "cordoned", "closed"] {
            pods.push(pinned(node, &json!({"tolerations": [toleration]})));
        }
    }
    let required = |terms: Value| {
        json!({"affinity": {"nodeAffinity":
            {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
    };
    let terms = terms();
    pods.extend(terms.map(|terms| pinned("plain", &required(terms))));
    let nodes = nodes.map(|(name, spec)| node(name, &spec, &plain));
    (nodes.into(), pods)
}

/// Node selector terms that the API server accepts.
fn terms() -> impl Iterator<Item = Value> {
    let rule = |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
    let rules = [
        rule("zone", "In", &["b", "a"]),
        rule("zone", "In", &["b"]),
        rule("none", "In", &["a"]),
        rule("zone", "NotIn", &["a"]),
        rule("zone", "NotIn", &[""]),
        rule("none", "NotIn", &["a"]),
        rule("zone", "Exists", &[]),
        rule("none", "Exists", &[]),
        rule("zone", "DoesNotExist", &[]),
        rule("none", "DoesNotExist", &[]),
        rule("cards", "Gt", &["3"]),
        rule("cards", "Gt", &["4"]),
        rule("cards", "Lt", &["5"]),
        rule("none", "Lt", &["5"]),
        rule("zone", "Gt", &["3"]),
        rule("cards", "Gt", &["few"]),
        rule("cards", "Lt", &["9223372036854775808"]),
    ];
    let labels = |rule: Value| json!({"matchExpressions": [rule]});
    let fields = |operator: &str, name: &str| json!({"matchFields": [rule("metadata.name", operator, &[name])]});
    let (met, unmet) = (rule("zone", "Exists", &[]), rule("none", "Exists", &[]));
    let mut elsewhere = fields("NotIn", "plain");
    elsewhere["matchExpressions"] = json!([met]);
    let more = [
        json!([{}]),
        json!([{"matchExpressions": [], "matchFields": []}]),
        json!([{}, labels(met.clone())]),
        json!([labels(unmet.clone()), labels(met.clone())]),
        json!([{"matchExpressions": [met.clone(), unmet]}]),
        json!([labels(rule("cards", "Gt", &["few"])), labels(met)]),
        json!([fields("In", "plain")]),
        json!([fields("In", "tainted")]),
        json!([fields("NotIn", "plain")]),
        json!([fields("NotIn", "tainted")]),
        json!([elsewhere]),
    ];
    rules
        .map(|rule| json!([labels(rule)]))
        .into_iter()
        .chain(more)
}

/// Pods with everything that can affect what they request.
fn by_requests() -> Vec<Value> {
    let asking = |name: &str, resources: Value| json!({"name": name, "image": "none", "resources": resources});
    let cpu = |name: &str, cpu: &str| asking(name, json!({"requests": {"cpu": cpu}}));
    let sidecar = |cpu: &str| {
        json!({"name": "sidecar", "image": "none", "restartPolicy": "Always",
            "resources": {"requests": {"cpu": cpu}}})
    };
    let other = json!({"cpu": "1", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi",
        "example.com/dongle": "2"});
    let whole =
        |pod: Value| json!({"resources": pod, "containers": [cpu("a", "1"), cpu("b", "500m")]});
    vec![
        json!({"containers": [
            asking("a", json!({"requests": {"cpu": "1500m"}, "limits": {"cpu": "4", "memory": "1Gi"}})),
            asking("b", json!({"limits": {"cpu": "500m"}})),
        ]}),
        json!({"initContainers": [cpu("i", "3")], "containers": [cpu("a", "1"), cpu("b", "1")]}),
        json!({
            "initContainers": [cpu("i", "5"), sidecar("1"), cpu("j", "4500m")],
            "containers": [cpu("a", "2")],
        }),
        json!({"initContainers": [sidecar("2"), cpu("i", "1")], "containers": [cpu("a", "3")]}),
        json!({"containers": [asking("a", json!({"limits": other}))]}),
        json!({"containers": [asking("a", json!({"requests": {"ephemeral-storage": "1Gi"}}))]}),
        json!({"runtimeClassName": RUNTIME, "overhead": overhead(), "containers": [cpu("a", "1")]}),
        whole(json!({"requests": {"cpu": "3", "memory": "1Gi"}})),
        whole(json!({"limits": {"cpu": "3", "memory": "1Gi"}})),
        whole(json!({"requests": {"cpu": "2"}, "limits": {"cpu": "3", "hugepages-2Mi": "4Mi"}})),
    ]
}

fn overhead() -> Value {
    json!({"cpu": "250m", "memory": "64Mi"})
}

/// What the pod requests according to its manifest, before the API server fills in defaults.
fn needs_of(spec: &Value) -> Totals {
    let spec: slim::PodSpec = serde_json::from_value(spec.clone()).unwrap();
    StatedResources::from(&spec).requests()
}

/// These totals, each lower by `less`, as a node's status writes them.
fn written(totals: &Totals, less: i64) -> Value {
    let unit = |name: &str| if name == CPU { "m" } else { "" };
    let amounts = totals.iter().map(|(name, amount)| {
        let left = (amount - less).max(0);
        (name.clone(), json!(format!("{left}{}", unit(name))))
    });
    amounts.collect::<serde_json::Map<_, _>>().into()
}

fn node(name: &str, spec: &Value, totals: &Value) -> Value {
    let labels = json!({NAME_LABEL: name, "zone": "a", "cards": "4"});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "spec": spec, "status": {"capacity": totals, "allocatable": totals}})
}

/// A pod with this spec that can only go to the node.
fn pinned(node: &str, spec: &Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec});
    pod["spec"]["nodeSelector"] = json!({NAME_LABEL: node});
    if pod["spec"]["containers"].is_null() {
        pod["spec"]["containers"] = json!([{"name": "c", "image": "none"}]);
    }
    pod
}

fn all<K: DeserializeOwned>(rig: &Rig, kind: &str) -> Result<Vec<K>> {
    Ok(serde_json::from_value(rig.get(kind)?["items"].take())?)
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// How kube-scheduler and the rulebook differ about the pod, if only because kube-scheduler has not judged it yet.
fn disagreement(pod: &Pod, pods: &[Pod], nodes: &[Node]) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let others = || pods.iter().filter(|other| other.uid() != pod.uid());
    let judged = nodes.iter().map(|node| {
        let name = node.name_any();
        let there = others().filter(|other| node_of(other) == Some(&*name));
        (name.clone(), reasons(pod, node, there))
    });
    let judged: Vec<(String, Vec<String>)> = judged.collect();
    let fits = |node: &str| {
        judged
            .iter()
            .any(|(name, why)| name == node && why.is_empty())
    };
    let conditions = pod.status.iter().flat_map(|status| &status.conditions);
    let scheduled = conditions.flatten().find(|one| one.type_ == "PodScheduled");
    let said = scheduled
        .and_then(|one| one.message.as_deref())
        .unwrap_or_default();
    let everything = judged.iter().flat_map(|(_, why)| why).map(String::as_str);
    let refusal = placing::refusal(nodes.len(), everything);
    let agrees = match spec.node_name.as_deref() {
        Some(node) => fits(node),
        None if judged.iter().any(|(_, why)| why.is_empty()) => false,
        // If a pod names its node by affinity, kube-scheduler only says that it did not look at the other nodes.
        None if said.contains("didn't satisfy plugin(s) [NodeAffinity]") => names_its_node(spec),
        None => said.starts_with(&refusal),
    };
    (!agrees).then(|| {
        let placed = spec.node_name.as_deref().unwrap_or(said);
        let spec = json!(spec);
        format!("kube-scheduler: {placed}; rulebook: {refusal}; {spec}")
    })
}

fn names_its_node(spec: &PodSpec) -> bool {
    let by_name = r#""matchFields":[{"key":"metadata.name","operator":"In""#;
    json!(spec.affinity).to_string().contains(by_name)
}

/// Why the pod does not fit on the node beside the pods that are there.
fn reasons<'a>(pod: &Pod, node: &Node, there: impl Iterator<Item = &'a Pod>) -> Vec<String> {
    let spec = pod.spec.as_ref().unwrap();
    if let Some(found) = placing::obstacles(spec.into(), node.into()).next() {
        return vec![found.reason().to_owned()];
    }
    let needs = |pod: &Pod| {
        pod.spec
            .as_ref()
            .map(StatedResources::from)
            .unwrap_or_default()
            .requests()
    };
    let mut free = totals::allocatable(node);
    for (resource, taken) in there.flat_map(needs) {
        *free.entry(resource).or_default() -= taken;
    }
    let needs = needs(pod);
    let lacking = totals::lacking(&needs, |name| free.get(name).copied().unwrap_or(0));
    lacking.map(|(name, _)| totals::reason(name)).collect()
}
