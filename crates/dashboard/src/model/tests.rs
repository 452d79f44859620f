//! Models for tests, made of objects as the API server shows them.

use gpushare_core::placement::Hold;
use gpushare_core::record::Record;
use gpushare_core::{Amounts, CardId, Placement, gpu, held, inventory, names};
use gpushare_kube::convert::PodFacts;
use serde_json::{Value, json};

use super::*;

pub(crate) fn empty() -> Model {
    Model::new(gpu::dialects(gpu::AliyunUnit::GiB))
}

fn card(node: &str, index: u32, memory: u64) -> Card {
    Card {
        id: CardId::new(format!("GPU-{node}-{index}")),
        class: gpu::CLASS.into(),
        index,
        model: "Tesla T4".into(),
        capacity: Amounts::of(gpu::MEMORY, memory).with(gpu::CORE, 100),
        healthy: true,
    }
}

fn node_object(name: &str, memory: &[u64]) -> Value {
    let cards: Vec<Card> = (0..)
        .zip(memory)
        .map(|(index, memory)| card(name, index, *memory))
        .collect();
    let published = inventory::encode(&gpu::classes(), &cards);
    json!({"metadata": {"name": name, "annotations": {names::CARDS: published}}})
}

pub(crate) fn add_node(model: &mut Model, name: &str, memory: &[u64]) {
    let node: slim::Node = serde_json::from_value(node_object(name, memory)).unwrap();
    let seen = model.see_node(&node);
    model.set_node(seen);
}

fn pod_object(name: &str, memory: u64) -> Value {
    let limits = json!({
        "gpushare.io/gpu": "1", "gpushare.io/gpu-mem": memory.to_string(), "gpushare.io/gpu-core": "10"
    });
    json!({
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}")},
        "spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]},
    })
}

pub(crate) fn set(model: &mut Model, pod: &Value) {
    let pod: slim::Pod = serde_json::from_value(pod.clone()).unwrap();
    let seen = model.see_pod(&pod);
    model.set_pod(seen);
}

pub(crate) fn wait(model: &mut Model, name: &str, memory: u64) {
    set(model, &pod_object(name, memory));
}

fn placed(model: &Model, name: &str, node: &str, memory: u64) -> Value {
    let mut pod = pod_object(name, memory);
    pod["spec"]["nodeName"] = node.into();
    pod["status"] = json!({"phase": "Running"});
    let facts = PodFacts::new(
        &serde_json::from_value(pod.clone()).unwrap(),
        model.dialects(),
    );
    let ask = facts.ask.unwrap().unwrap();
    let placement = Placement::on_one_card(&ask, &CardId::new(format!("GPU-{node}-0")));
    let record = Record::new(
        facts.uid,
        NodeName::new(node),
        &model.dialects().classes,
        &placement,
    );
    pod["metadata"]["annotations"] = json!({names::ALLOCATION: record.encode()});
    pod
}

pub(crate) fn place(model: &mut Model, name: &str, node: &str, memory: u64) {
    let pod = placed(model, name, node, memory);
    set(model, &pod);
}

#[test]
fn a_pod_that_ends_gives_back_what_it_held() {
    let mut model = empty();
    add_node(&mut model, "n", &[16_384]);
    place(&mut model, "p", "n", 8192);
    assert_eq!(model.ledger().len(), 1);
    let mut pod = placed(&model, "p", "n", 8192);
    pod["status"]["phase"] = "Succeeded".into();
    set(&mut model, &pod);
    assert!(model.ledger().is_empty());
}

/// A node with this much of its card held by a pod that is gone.
fn add_node_with_held(model: &mut Model, name: &str, memory: u64, held: &str) {
    let mut node = node_object(name, &[memory]);
    node["metadata"]["annotations"][names::HELD] = held.into();
    let seen = model.see_node(&serde_json::from_value(node).unwrap());
    model.set_node(seen);
}

#[test]
fn what_containers_hold_whose_pods_are_gone_is_not_shown_as_free() {
    let mut model = empty();
    let used = |model: &Model| {
        let node = model.ledger().node("n").unwrap();
        let memory = node.cards().map(|card| card.used.get(gpu::MEMORY));
        memory.sum::<u64>()
    };
    add_node(&mut model, "n", &[16_384]);
    model.take_changes();
    let held = held::encode(
        model.dialects().classes.get(gpu::CLASS).unwrap(),
        &[HeldPod {
            pod: "uid-gone".into(),
            name: "ns/gone".into(),
            charges: [(
                CardId::new("GPU-n-0"),
                Hold::Part(Amounts::of(gpu::MEMORY, 6144)),
            )]
            .into_iter()
            .collect(),
        }],
    );
    add_node_with_held(&mut model, "n", 16_384, &held);
    assert_eq!(used(&model), 6144);
    assert!(model.take_changes().nodes.contains("n"));
    add_node(&mut model, "n", &[16_384]);
    assert_eq!(used(&model), 0);
    assert!(model.take_changes().nodes.contains("n"));
}

#[test]
fn a_node_where_nobody_knows_what_is_held_shows_that_and_no_room() {
    let mut model = empty();
    add_node_with_held(&mut model, "n", 16_384, "{");
    assert!(model.ledger().node("n").is_none());
    let error = model.nodes()["n"].cards.clone().unwrap_err();
    assert!(error.contains("still held"), "{error}");
}

#[test]
fn an_object_that_is_shown_again_unchanged_is_no_change() {
    let mut model = empty();
    add_node(&mut model, "n", &[16_384]);
    place(&mut model, "p", "n", 8192);
    assert!(model.take_changes().any());
    add_node(&mut model, "n", &[16_384]);
    place(&mut model, "p", "n", 8192);
    assert!(!model.take_changes().any());
}

#[test]
fn a_pod_without_a_record_is_shown_and_counts_nowhere() {
    let mut model = empty();
    add_node(&mut model, "n", &[16_384]);
    let mut pod = pod_object("p", 8192);
    pod["spec"]["nodeName"] = "n".into();
    set(&mut model, &pod);
    assert!(model.ledger().is_empty());
    let (_, pod) = model.pod_named("ns", "p").unwrap();
    assert!(matches!(pod.allocation, AllocationState::Unproven { .. }));
}

#[test]
fn what_a_new_list_does_not_show_is_gone() {
    let mut model = empty();
    add_node(&mut model, "n", &[16_384]);
    place(&mut model, "p", "n", 8192);
    model.take_changes();
    model.replace_pods(Vec::new());
    assert!(model.ledger().is_empty());
    model.replace_nodes(Vec::new());
    assert!(model.nodes().is_empty());
    assert!(model.take_changes().nodes.contains("n"));
}
