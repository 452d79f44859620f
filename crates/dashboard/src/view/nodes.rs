//! Nodes: a row of the list, and a node with its cards and the pods on them.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::ledger::{CardView, NodeView};
use gpushare_core::{NodeName, gpu};
use serde::Serialize;

use super::{Level, named, units};
use crate::model::{Model, Standing};

/// A node in the list.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: NodeName,
    pub(crate) models: BTreeSet<String>,
    pub(crate) cards: usize,
    pub(crate) sick: usize,
    pub(crate) pods: usize,
    pub(crate) memory: Level,
    pub(crate) core: Level,
    /// For each card, how much of its scarcest dimension is used, in percent.
    pub(crate) full: Vec<u8>,
    pub(crate) cordoned: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
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
#[serde(rename_all = "camelCase")]
struct Holder {
    namespace: String,
    name: String,
    priority: i32,
    created: i64,
    running: bool,
    deleting: bool,
    used: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct Unproven {
    namespace: String,
    name: String,
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
            let (used, size) = (&card.used, &card.card.capacity);
            row.memory.add(used.get(gpu::MEMORY), size.get(gpu::MEMORY));
            row.core.add(used.get(gpu::CORE), size.get(gpu::CORE));
        }
    }
    Some(row)
}

pub(crate) fn detail(model: &Model, name: &str) -> Option<Detail> {
    let name = NodeName::new(name);
    let row = row(model, &name)?;
    let view = model.ledger().node(name.as_str());
    let cards = view.into_iter().flat_map(NodeView::cards);
    let unproven = model.pods().filter_map(|(_, pod)| match &pod.standing {
        Standing::Unproven { node, why } if *node == name => Some(Unproven {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
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
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                priority: pod.priority,
                created: pod.created,
                running: pod.running,
                deleting: pod.deleting,
                used: named(class, &used),
            })
        });
        let mut pods: Vec<Holder> = pods.collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
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
    let shares = dimensions.map(|dimension| {
        let level = Level {
            used: card.used.get(dimension),
            size: card.card.capacity.get(dimension),
        };
        level.percent()
    });
    shares.into_iter().max().unwrap_or(0)
}
