//! Inspect: what is booked where, in the predecessor's format, in which "GPU" means units of memory.

use gpushare_books::Books;
use gpushare_core::PodUid;
use gpushare_core::amounts::Amounts;
use gpushare_core::gpu::{AliyunUnit, MEMORY};
use gpushare_core::ledger::{CardView, NodeView};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Inspection {
    nodes: Vec<Node>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

#[derive(Debug, Serialize)]
struct Node {
    name: String,
    #[serde(rename = "totalGPU")]
    total: u64,
    #[serde(rename = "usedGPU")]
    used: u64,
    devs: Vec<Device>,
}

#[derive(Debug, Serialize)]
struct Device {
    id: u32,
    #[serde(rename = "totalGPU")]
    total: u64,
    #[serde(rename = "usedGPU")]
    used: u64,
    pods: Vec<Pod>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Pod {
    name: String,
    namespace: String,
    #[serde(rename = "usedGPU")]
    used: u64,
}

/// Every node that has cards.
pub(super) fn all(books: &Books, unit: AliyunUnit) -> Inspection {
    let nodes = books.ledger().nodes();
    Inspection {
        nodes: nodes.filter_map(|view| node(books, view, unit)).collect(),
        error: String::new(),
    }
}

/// One node; an error if no node of this name has cards.
pub(super) fn one(books: &Books, name: &str, unit: AliyunUnit) -> Result<Inspection, Inspection> {
    let view = books.ledger().node(name);
    match view.and_then(|view| node(books, view, unit)) {
        Some(node) => Ok(Inspection {
            nodes: vec![node],
            error: String::new(),
        }),
        None => Err(Inspection {
            nodes: Vec::new(),
            error: format!("no node {name:?} with cards is known"),
        }),
    }
}

fn node(books: &Books, view: NodeView<'_>, unit: AliyunUnit) -> Option<Node> {
    let devs: Vec<Device> = view.cards().map(|card| device(books, card, unit)).collect();
    (!devs.is_empty()).then(|| Node {
        name: view.name.to_string(),
        total: devs.iter().map(|dev| dev.total).sum(),
        used: devs.iter().map(|dev| dev.used).sum(),
        devs,
    })
}

fn device(books: &Books, view: CardView<'_>, unit: AliyunUnit) -> Device {
    let mut pods: Vec<Pod> = view
        .pods()
        .map(|(uid, amounts)| {
            let (namespace, name) = names(books, uid);
            Pod {
                name,
                namespace,
                used: used(amounts, unit),
            }
        })
        .collect();
    pods.sort();
    Device {
        id: view.card.index,
        total: view.card.capacity.get(MEMORY) / unit.mib(),
        used: used(view.used, unit),
        pods,
    }
}

/// Namespace and name of a pod; if the pod is gone, as its node's agent reports them.
fn names(books: &Books, uid: &PodUid) -> (String, String) {
    if let Some(known) = books.pods().get(uid.as_str()) {
        return (known.pod.namespace.clone(), known.pod.name.clone());
    }
    let outlived = books.ledger().outlived(uid.as_str());
    let name = outlived.and_then(|held| held.name.split_once('/'));
    let (namespace, name) = name.unwrap_or(("", uid.as_str()));
    (namespace.to_owned(), name.to_owned())
}

/// Rounded up: a part of a unit is not free.
fn used(amounts: Amounts, unit: AliyunUnit) -> u64 {
    amounts.get(MEMORY).div_ceil(unit.mib())
}
