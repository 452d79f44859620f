//! The cluster that is measured: 5,000 nodes with 8 cards each and 40,000 pods on them, as the API server
//! shows such objects, with everything that the extender does not read (about 10 KB a node, 4 KB a pod).
//!
//! Three of ten nodes are crowded: none of their cards has room for [`ASKED_GIB`]. No two of the others
//! are alike.

use anyhow::{Context, Result};
use gpushare_core::card::Card;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{Amounts, Placement, Record, inventory, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

pub(crate) const NODES: usize = 5_000;
pub(crate) const CARDS: usize = 8;
pub(crate) const PODS: usize = NODES * CARDS;
/// The namespace of all pods.
pub(crate) const NAMESPACE: &str = "team";
/// What the pods of the measured filter ask for: the crowded nodes have no room for any of these amounts.
pub(crate) const ASKED_GIB: [u64; 4] = [7, 8, 9, 10];
/// More than any card has.
pub(crate) const TOO_MUCH_GIB: u64 = 90;

const CARD_GIB: u64 = 24;
const GIB: u64 = 1024;

/// A body that a real kube-scheduler sent.
const CAPTURED: &str = include_str!("../../../crates/extender/tests/samples/cache/001-filter.json");

pub(crate) fn node_name(node: usize) -> String {
    format!("gpu-{node:05}.pool-a.example")
}

/// This many node names, with their proportion of crowded nodes.
pub(crate) fn node_names(count: usize) -> Vec<String> {
    let step = NODES / count.clamp(1, NODES);
    (0..count)
        .map(|node| node_name(node * step + node % step))
        .collect()
}

fn crowded(node: usize) -> bool {
    node % 10 < 3
}

/// A node that has room for any number of small pods.
pub(crate) fn roomy_node(number: usize) -> String {
    node_name(roomy(number))
}

fn roomy(number: usize) -> usize {
    number % (NODES / 10) * 10 + 3 + number % 7
}

/// A number that looks random and is the same in every run.
fn varied(number: usize) -> u64 {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
}

fn card_id(node: usize, card: usize) -> String {
    format!(
        "GPU-{node:08x}-{card:04x}-4000-8000-{:012x}",
        node * CARDS + card
    )
}

pub(crate) fn uid(kind: &str, number: usize) -> String {
    let kind = kind
        .bytes()
        .fold(0_u16, |sum, byte| sum.wrapping_mul(31) ^ u16::from(byte));
    format!("{number:08x}-{kind:04x}-4f0d-9a8b-97594d13740c")
}

/// The body of filter and prioritize, with the captured pod asking for this much.
pub(crate) fn scheduler_body(gib: u64, names: &[String]) -> Result<Vec<u8>> {
    body_for(captured_pod(gib)?, names)
}

fn body_for(pod: Value, names: &[String]) -> Result<Vec<u8>> {
    let mut body: Value = serde_json::from_str(CAPTURED).context("the captured body")?;
    body["Pod"] = pod;
    body["NodeNames"] = json!(names);
    Ok(serde_json::to_vec(&body)?)
}

/// As [`scheduler_body`], for one container with a part of one card, in MiB.
pub(crate) fn share_body(mib: u64, names: &[String]) -> Result<Vec<u8>> {
    let limits = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": mib.to_string()});
    body_of(&[limits], names)
}

/// As [`scheduler_body`], for as many containers as a pod may ask in, with 2 to 4 cards each and shares of different
/// sizes. Together they ask for about what the cards of a node have free.
pub(crate) fn hostile_body(seed: u64, names: &[String]) -> Result<Vec<u8>> {
    let limits = (0..32_u64).map(|container| {
        let number = container + seed * 32;
        let (cards, mib) = (2 + number % 3, 700 + number * 7_919 % 1_301);
        json!({"gpushare.io/gpu": cards.to_string(), "gpushare.io/gpu-mem": mib.to_string()})
    });
    body_of(&limits.collect::<Vec<_>>(), names)
}

fn body_of(limits: &[Value], names: &[String]) -> Result<Vec<u8>> {
    let mut pod = captured_pod(1)?;
    let containers = limits.iter().enumerate().map(|(at, limits)| {
        json!({"name": format!("c{at}"), "image": "app", "resources": {"limits": limits, "requests": limits}})
    });
    pod["spec"]["containers"] = containers.collect();
    body_for(pod, names)
}

fn captured_pod(gib: u64) -> Result<Value> {
    let ours = CAPTURED
        .replace("example.com/gpu-mem", "aliyun.com/gpu-mem")
        .replace(
            r#""aliyun.com/gpu-mem":"20""#,
            &format!(r#""aliyun.com/gpu-mem":"{gib}""#),
        );
    let body: Value = serde_json::from_str(&ours).context("the captured body")?;
    Ok(body["Pod"].clone())
}

/// A node as a kubelet and our agent write it.
pub(crate) fn node(number: usize) -> Value {
    let name = node_name(number);
    let cards = (0..CARDS).zip(0..).map(|(card, index)| Card {
        id: card_id(number, card).as_str().into(),
        class: gpu::CLASS.into(),
        index,
        model: "NVIDIA A10".into(),
        capacity: Amounts::of(gpu::MEMORY, CARD_GIB * GIB),
        healthy: true,
    });
    let cards: Vec<Card> = cards.collect();
    let offered = json!({
        "cpu": "96", "memory": "791482780Ki", "ephemeral-storage": "265142110657", "pods": "110",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
        "gpushare.io/gpu": (CARDS * 16).to_string(),
        "gpushare.io/gpu-mem": (CARD_GIB * GIB * 8).to_string(),
        "aliyun.com/gpu-mem": (CARD_GIB * 8).to_string(),
    });
    let images: Vec<Value> = (0..30)
        .map(|image| {
            json!({
                "names": [
                    format!("registry.example/team/service-{image}@sha256:{image:064x}"),
                    format!("registry.example/team/service-{image}:1.{image}.0"),
                ],
                "sizeBytes": 100_000_000 + image,
            })
        })
        .collect();
    let condition = |kind: &str, status: &str| {
        json!({
            "type": kind, "status": status, "reason": format!("Kubelet{kind}"),
            "message": format!("kubelet reports {kind} as {status}"),
            "lastHeartbeatTime": "2026-11-15T20:14:46Z", "lastTransitionTime": "2026-11-15T20:14:41Z",
        })
    };
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid("node", number),
            "resourceVersion": "1000",
            "creationTimestamp": "2026-11-15T20:14:41Z",
            "labels": {
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", "kubernetes.io/hostname": name,
                "node.kubernetes.io/instance-type": "g5.48xlarge",
                "topology.kubernetes.io/region": "eu-1", "topology.kubernetes.io/zone": "eu-1a",
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "15",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                names::CARDS: inventory::encode(&gpu::classes(), &cards),
            },
            "managedFields": managed_fields(&["kubelet", "gpushare-node", "kube-controller-manager"]),
        },
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]},
        "status": {
            "capacity": offered,
            "allocatable": offered,
            "conditions": [
                condition("MemoryPressure", "False"), condition("DiskPressure", "False"),
                condition("PIDPressure", "False"), condition("Ready", "True"),
            ],
            "addresses": [{"type": "InternalIP", "address": "10.99.0.1"}, {"type": "Hostname", "address": name}],
            "images": images,
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "kernelVersion": "6.18.0",
                "bootID": uid("boot", number), "machineID": uid("machine", number),
                "systemUUID": uid("system", number), "containerRuntimeVersion": "containerd://2.1.0",
                "kubeletVersion": "v1.36.4", "kubeProxyVersion": "", "osImage": "Debian GNU/Linux 12 (bookworm)",
            },
        },
    })
}

/// A running pod on a card. There are as many as cards, one on each.
pub(crate) fn running_pod(number: usize) -> Result<Value> {
    let (node, card) = (number % NODES, number / NODES % CARDS);
    let gib = if crowded(node) {
        18 + varied(number) % 5
    } else {
        4 + varied(number) % 9
    };
    let mut pod = pod("web", number, gib)?;
    let record = record(&pod, &node_name(node), &card_id(node, card))?;
    let annotations = json!({names::ALLOCATION: record});
    bind(&mut pod, &node_name(node), &annotations);
    let conditions = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let conditions = conditions.into_iter().map(|kind| {
        json!({
            "type": kind, "status": "True", "lastProbeTime": null,
            "lastTransitionTime": "2026-11-15T20:14:41Z", "observedGeneration": 1,
        })
    });
    pod["status"] = json!({
        "phase": "Running",
        "qosClass": "Guaranteed",
        "conditions": conditions.collect::<Vec<_>>(),
        "containerStatuses": [{
            "name": "c", "ready": true, "started": true, "restartCount": 0, "image": "lab/busybox:1",
            "imageID": format!("sha256:{number:064x}"), "containerID": format!("containerd://{number:064x}"),
            "state": {"running": {"startedAt": "2026-11-15T20:14:45Z"}}, "lastState": {},
        }],
        "hostIP": "10.99.0.1", "hostIPs": [{"ip": "10.99.0.1"}],
        "podIP": "10.244.0.7", "podIPs": [{"ip": "10.244.0.7"}],
        "startTime": "2026-11-15T20:14:41Z",
    });
    Ok(pod)
}

/// A small pod that waits to be bound.
pub(crate) fn pending_pod(number: usize) -> Result<Value> {
    pod("waiting", number, 1)
}

pub(crate) fn pending_name(number: usize) -> String {
    format!("waiting-{number:06}")
}

fn pod(kind: &str, number: usize, gib: u64) -> Result<Value> {
    let mut pod = captured_pod(gib)?;
    let metadata = &mut pod["metadata"];
    metadata["name"] = json!(format!("{kind}-{number:06}"));
    metadata["namespace"] = json!(NAMESPACE);
    metadata["uid"] = json!(uid(kind, number));
    metadata["labels"] = json!({"app": kind, "pod-template-hash": "6d4cf56db6"});
    metadata["ownerReferences"] = json!([{
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{kind}-6d4cf56db6"),
        "uid": uid("owner", 1), "controller": true, "blockOwnerDeletion": true,
    }]);
    metadata["managedFields"] = managed_fields(&["kube-controller-manager", "kubelet"]);
    Ok(pod)
}

/// The pod as it is after a bind.
pub(crate) fn bind(pod: &mut Value, node: &str, annotations: &Value) {
    pod["spec"]["nodeName"] = json!(node);
    for (name, value) in annotations.as_object().into_iter().flatten() {
        pod["metadata"]["annotations"][name] = value.clone();
    }
}

/// The binding that puts a waiting pod on a card with room.
pub(crate) fn binding(number: usize) -> Result<Value> {
    let (node, name) = (roomy(number), roomy_node(number));
    let record = record(&pending_pod(number)?, &name, &card_id(node, number % CARDS))?;
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"annotations": {names::ALLOCATION: record}},
        "target": {"kind": "Node", "name": name},
    }))
}

/// The lease of an extender that was stopped as in an update: the next one need not wait for it.
pub(crate) fn lease_given_back(name: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "uid": uid("lease", 0), "resourceVersion": "1"},
        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1, "leaseTransitions": 1},
    })
}

/// The record that a bind of this pod to the card would write.
fn record(pod: &Value, node: &str, card: &str) -> Result<String> {
    let slim: slim::Pod = serde_json::from_value(pod.clone())?;
    let facts = PodFacts::new(&slim, &gpu::dialects(AliyunUnit::GiB));
    let ask = facts.ask?.context("the pod asks for no card")?;
    let placement = Placement::on_one_card(&ask, &card.into());
    Ok(Record::new(facts.uid, node.into(), &gpu::classes(), &placement).encode())
}

/// Which manager wrote which field: the API server stores it, but the measured programs do not read it.
fn managed_fields(managers: &[&str]) -> Value {
    let fields = json!({
        "f:metadata": {"f:annotations": {".": {}, "f:ttl": {}}, "f:labels": {".": {}, "f:app": {}, "f:hash": {}}},
        "f:spec": {
            "f:containers": {"k:{\"name\":\"c\"}": {
                ".": {}, "f:image": {}, "f:imagePullPolicy": {}, "f:name": {}, "f:resources": {".": {},
                "f:limits": {".": {}, "f:cpu": {}, "f:memory": {}}}, "f:terminationMessagePath": {},
            }},
            "f:dnsPolicy": {}, "f:enableServiceLinks": {}, "f:restartPolicy": {}, "f:schedulerName": {},
        },
    });
    let entries = managers.iter().map(|manager| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-11-15T20:14:45Z",
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_as_large_as_real_ones() {
        let node = node(4999).to_string().len();
        assert!((9_000..12_000).contains(&node), "{node}");
        let pod = running_pod(39_999).unwrap().to_string().len();
        assert!((3_800..5_500).contains(&pod), "{pod}");
    }

    #[test]
    fn every_running_pod_carries_a_record_that_is_believed() {
        for number in [0, 1, 4_999, 5_000, PODS - 1] {
            let pod: slim::Pod = serde_json::from_value(running_pod(number).unwrap()).unwrap();
            let facts = PodFacts::new(&pod, &gpu::dialects(AliyunUnit::GiB));
            assert!(facts.bound(&gpu::classes()).unwrap().is_ok(), "{number}");
        }
    }

    #[test]
    fn the_nodes_that_are_asked_about_exist_once_and_some_are_crowded() {
        for count in [500, NODES] {
            let names: std::collections::BTreeSet<String> = node_names(count).into_iter().collect();
            assert_eq!(names.len(), count);
            let crowded = (0..NODES).filter(|node| crowded(*node)).map(node_name);
            let crowded = crowded.filter(|name| names.contains(name)).count();
            assert_eq!(crowded, count * 3 / 10);
        }
        assert!((0..NODES).filter(|node| crowded(*node)).count() == NODES * 3 / 10);
        let all: std::collections::BTreeSet<String> = node_names(NODES).into_iter().collect();
        assert!((0..20_000).all(|number| all.contains(&roomy_node(number))));
    }

    #[test]
    fn roomy_nodes_are_not_crowded() {
        let crowded: Vec<String> = (0..NODES).filter(|n| crowded(*n)).map(node_name).collect();
        assert!((0..5_000).all(|number| !crowded.contains(&roomy_node(number))));
    }
}
