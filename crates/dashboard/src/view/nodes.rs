//! Nodes: a row of the list, and a node with its cards and the pods on them.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::ledger::{CardView, NodeView};
use gpushare_core::{NodeName, gpu};
use serde::Serialize;

use super::{Level, named, units};
use crate::model::{About, AllocationState, Model, PodName};

/// A node in the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    name: NodeName,
    models: BTreeSet<String>,
    cards: usize,
    sick: usize,
    pods: usize,
    memory: Level,
    core: Level,
    /// For each card, how much of its scarcest dimension is used, in percent.
    full: Vec<u8>,
    cordoned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(flatten)]
    row: Row,
    devices: Vec<Card>,
    /// Pods that are on the node but not counted on any card.
    unproven: Vec<Unproven>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Card {
    index: u32,
    id: String,
    class: String,
    model: String,
    healthy: bool,
    capacity: BTreeMap<String, u64>,
    used: BTreeMap<String, u64>,
    /// Kept for pods that wait for their victims to end.
    claimed: BTreeMap<String, u64>,
    units: BTreeMap<String, String>,
    pods: Vec<Holder>,
}

#[derive(Debug, Serialize)]
struct Holder {
    #[serde(flatten)]
    about: About,
    used: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Unproven {
    #[serde(flatten)]
    title: PodName,
    why: String,
}

/// `None` for a node on which no agent has published cards.
pub(crate) fn row(model: &Model, name: &NodeName) -> Option<Row> {
    let node = model.nodes().get(name)?;
    let mut row = Row {
        name: name.clone(),
        models: BTreeSet::new(),
        cards: 0,
        sick: 0,
        pods: 0,
        memory: Level::default(),
        core: Level::default(),
        full: Vec::new(),
        cordoned: node.cordoned,
        error: node.cards.as_ref().err().cloned(),
    };
    let Some(view) = model.ledger().node(name.as_str()) else {
        return Some(row);
    };
    row.pods = view.bookings().count();
    for card in view.cards() {
        row.cards += 1;
        row.sick += usize::from(!card.card.healthy);
        row.models.insert(card.card.model.to_string());
        row.full.push(fullest(&card));
        if *card.card.class == *gpu::CLASS {
            row.memory.add(Level::of(&card, gpu::MEMORY));
            row.core.add(Level::of(&card, gpu::CORE));
        }
    }
    Some(row)
}

pub(crate) fn detail(model: &Model, name: &str) -> Option<Detail> {
    let name = NodeName::new(name);
    let row = row(model, &name)?;
    let view = model.ledger().node(name.as_str());
    let cards = view.into_iter().flat_map(NodeView::cards);
    let unproven = model.pods().filter_map(|(_, pod)| match &pod.allocation {
        AllocationState::Unproven { node, why } if *node == name => Some(Unproven {
            title: pod.title().clone(),
            why: why.clone(),
        }),
        _ => None,
    });
    Some(Detail {
        row,
        devices: cards.map(|card| Card::new(model, &card)).collect(),
        unproven: unproven.collect(),
    })
}

impl Card {
    fn new(model: &Model, view: &CardView<'_>) -> Self {
        let class = model.ledger().classes().get(&view.card.class);
        let capacity = &view.card.capacity;
        let pods = view.pods().filter_map(|(uid, used)| {
            let pod = model.pod(uid)?;
            Some(Holder {
                about: pod.about.clone(),
                used: named(class, &used),
            })
        });
        let mut pods: Vec<Holder> = pods.collect();
        pods.sort_by(|a, b| a.about.title.cmp(&b.about.title));
        let unheld = capacity.saturating_sub(&view.used);
        Self {
            index: view.card.index,
            id: view.card.id.to_string(),
            class: view.card.class.to_string(),
            model: view.card.model.to_string(),
            healthy: view.card.healthy,
            capacity: named(class, capacity),
            used: named(class, &view.used),
            claimed: named(class, &unheld.saturating_sub(&view.free())),
            units: units(class),
            pods,
        }
    }
}

/// How much of the scarcest dimension is used, in percent.
fn fullest(card: &CardView<'_>) -> u8 {
    let dimensions = [gpu::MEMORY, gpu::CORE];
    let shares = dimensions.map(|dimension| Level::of(card, dimension).percent());
    shares.into_iter().max().unwrap_or(0)
}
