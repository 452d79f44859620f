//! Reads nodes and pods of the cluster and sums up what is in use on each node.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use gpushare_core::Card;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_kube::slim;
use k8s_openapi::api::core::v1 as api;
use kube::Client;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ours;
use super::theirs::{self, Offer};
use super::usage::{NodeUse, PodUse, Usage};
use crate::connection::{self, NODES, Only, PODS};

/// A node, its cards if a gpushare agent published them, and the unit of `aliyun.com/gpu-mem` there.
struct Known {
    node: NodeUse,
    cards: Option<Vec<Card>>,
    offered: Option<AliyunUnit>,
}

/// The whole cluster, or these nodes of it.
pub(super) async fn usage(client: &Client, only: &[String]) -> Result<Usage> {
    let mut nodes = BTreeMap::new();
    // The server can select one name; for several names, everything is read.
    let one = match only {
        [name] => Some(name),
        _ => None,
    };
    let name = one.map(|name| format!("metadata.name={name}"));
    connection::each(
        client,
        NODES,
        Only::fields(name.as_deref()),
        |value: Value| add_node(&mut nodes, &value, only),
    )
    .await?;
    if let Some(name) = only.iter().find(|name| !nodes.contains_key(*name)) {
        bail!("there is no node {name:?}; kubectl get nodes lists them");
    }
    let on_node = one.map(|name| format!("spec.nodeName={name}"));
    connection::each(
        client,
        PODS,
        Only::fields(on_node.as_deref()),
        |value: Value| add_pod(&mut nodes, &value),
    )
    .await?;
    let with_memory = |known: &Known| known.node.total > 0;
    // As in the predecessor, a node that is asked for by name has columns for its cards even if they offer no memory.
    let headed = nodes
        .values()
        .filter(|known| !only.is_empty() || with_memory(known));
    let columns = headed.map(|known| known.node.cards.len()).max();
    let mut nodes: Vec<Known> = nodes.into_values().filter(with_memory).collect();
    in_full_gib(&mut nodes);
    Ok(Usage::new(
        nodes.into_iter().map(|known| known.node).collect(),
        columns.unwrap_or(0),
    ))
}

fn add_node(nodes: &mut BTreeMap<String, Known>, value: &Value, only: &[String]) -> Result<()> {
    let node: api::Node = of(value)?;
    let name = node.metadata.name.clone().unwrap_or_default();
    if !only.is_empty() && !only.contains(&name) {
        return Ok(());
    }
    let offer = Offer::of(&node);
    let cards = ours::cards(&of::<slim::Node>(value)?, &gpu::classes());
    let each: Vec<u64> = match &cards {
        Some(cards) => cards
            .iter()
            .map(|card| card.capacity.get(gpu::MEMORY))
            .collect(),
        None => offer.each_card(),
    };
    let known = Known {
        node: NodeUse {
            name: name.clone(),
            address: address(&node),
            unit: match &cards {
                Some(_) => Some(AliyunUnit::MiB),
                None => offer.unit(),
            },
            total: match &cards {
                Some(_) => each.iter().copied().fold(0, u64::saturating_add),
                None => offer.memory,
            },
            cards: each,
            pods: Vec::new(),
        },
        cards,
        offered: offer.unit(),
    };
    nodes.insert(name, known);
    Ok(())
}

fn add_pod(nodes: &mut BTreeMap<String, Known>, value: &Value) -> Result<()> {
    let pod: api::Pod = of(value)?;
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let known = node.and_then(|node| nodes.get_mut(node));
    let (Some(known), false) = (known, matches!(phase, Some("Succeeded" | "Failed"))) else {
        return Ok(());
    };
    let held = match &known.cards {
        Some(cards) => {
            let unit = known.offered.unwrap_or_default();
            held_of_ours(&pod, &of::<slim::Pod>(value)?, cards, unit)
        }
        None => theirs::held(&pod),
    };
    if !held.is_empty() {
        known.node.pods.push(PodUse {
            namespace: pod.metadata.namespace.unwrap_or_default(),
            name: pod.metadata.name.unwrap_or_default(),
            held,
        });
    }
    Ok(())
}

/// A pod on a node with our agent may still have been placed by the predecessor.
fn held_of_ours(
    pod: &api::Pod,
    slim: &slim::Pod,
    cards: &[Card],
    unit: AliyunUnit,
) -> Vec<(Option<usize>, u64)> {
    if let Some(held) = ours::held(slim, cards, unit) {
        return held;
    }
    let theirs = theirs::held(pod);
    if theirs.iter().any(|(card, _)| card.is_some()) {
        let in_mib =
            |(card, amount): (Option<usize>, u64)| (card, amount.saturating_mul(unit.mib()));
        return theirs.into_iter().map(in_mib).collect();
    }
    ours::asked(slim, unit).unwrap_or_default()
}

/// Nodes with our agent are read in MiB. A cluster that counts in GiB is shown in GiB, as its users expect,
/// if all pods hold whole GiB. The rest of a card beyond whole GiB cannot be requested in such a cluster.
fn in_full_gib(nodes: &mut [Known]) {
    let gib = AliyunUnit::GiB.mib();
    let full = |known: &Known| {
        let mut held = known.node.pods.iter().flat_map(|pod| &pod.held);
        known.cards.is_none() || held.all(|(_, amount)| amount.is_multiple_of(gib))
    };
    let offered_in_gib = |known: &Known| known.offered == Some(AliyunUnit::GiB);
    if !nodes
        .iter()
        .all(|known| offered_in_gib(known) && full(known))
    {
        return;
    }
    for Known { node, .. } in nodes.iter_mut().filter(|known| known.cards.is_some()) {
        node.unit = Some(AliyunUnit::GiB);
        node.cards.iter_mut().for_each(|total| *total /= gib);
        node.total = node.cards.iter().copied().fold(0, u64::saturating_add);
        let held = node.pods.iter_mut().flat_map(|pod| &mut pod.held);
        held.for_each(|(_, amount)| *amount /= gib);
    }
}

fn address(node: &api::Node) -> String {
    let addresses = node
        .status
        .iter()
        .filter_map(|status| status.addresses.as_ref());
    let internal = addresses
        .flatten()
        .find(|address| address.type_ == "InternalIP");
    internal.map_or_else(|| "unknown".to_owned(), |address| address.address.clone())
}

fn of<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).context("the API server sent an object that is none")
}
