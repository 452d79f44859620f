//! The answer for programs; tables are made from the same data.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use gpushare_core::ledger::CardView;
use gpushare_core::{Amounts, Classes, Ledger, NodeName};
use serde::Serialize;

use super::cache::CardCache;

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    pub(super) cards: Vec<Card>,
    /// Nodes whose cards cannot be read, with the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) unreadable: BTreeMap<String, String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Card {
    pub(super) node: String,
    pub(super) index: u32,
    pub(super) id: String,
    pub(super) class: String,
    pub(super) model: String,
    pub(super) healthy: bool,
    pub(super) capacity: BTreeMap<String, u64>,
    pub(super) used: BTreeMap<String, u64>,
    pub(super) units: BTreeMap<String, String>,
    pub(super) pods: Vec<Pod>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) used: BTreeMap<String, u64>,
    /// The pod no longer exists, but its containers still run.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(super) gone: bool,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.cards.is_empty() && self.unreadable.is_empty()
    }

    /// Reports on these nodes, or on all nodes if none are named.
    pub(super) fn new(cache: &CardCache, only: &[String]) -> Result<Self> {
        let ledger = cache.ledger();
        let wanted = |name: &NodeName| {
            only.is_empty() || only.iter().any(|only| only.as_str() == name.as_str())
        };
        let unreadable = cache.unreadable().filter(|(name, _)| wanted(name));
        let unreadable: BTreeMap<String, String> = unreadable
            .map(|(name, why)| (name.to_string(), why.to_owned()))
            .collect();
        for name in only {
            if ledger.node(name).is_none() && !unreadable.contains_key(name) {
                bail!(
                    "no node {name:?} with cards is known; check its name, and that the gpushare agent runs there"
                );
            }
        }
        let nodes = ledger.nodes().filter(|view| wanted(view.name));
        let cards = nodes.flat_map(|node| node.cards().map(move |card| (node.name, card)));
        Ok(Self {
            cards: cards
                .map(|(node, card)| Card::new(cache, &ledger, node, &card))
                .collect(),
            unreadable,
        })
    }
}

impl Card {
    fn new(cache: &CardCache, ledger: &Ledger, node: &NodeName, view: &CardView<'_>) -> Self {
        let classes: &Classes = cache.classes();
        let class = classes.get(&view.card.class);
        let dimensions = || (0..).map_while(|index| Some((index, class?.dimension(index)?)));
        // Zeros are included: programs should not have to know what a missing field means.
        let named = |amounts: &Amounts| -> BTreeMap<String, u64> {
            let amount = |index| amounts.get(index);
            dimensions()
                .map(|(index, dimension)| (dimension.name.to_string(), amount(index)))
                .collect()
        };
        let pods = view.pods().filter_map(|(uid, used)| {
            let (namespace, name, gone) = if let Some(holder) = cache.holder(uid) {
                (holder.namespace.as_str(), holder.name.as_str(), false)
            } else {
                let held = ledger.outlived(uid.as_str())?;
                let named = held.name.split_once('/');
                let (namespace, name) = named.unwrap_or(("", uid.as_str()));
                (namespace, name, true)
            };
            Some(Pod {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                used: named(&used),
                gone,
            })
        });
        let mut pods: Vec<Pod> = pods.collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        Self {
            node: node.to_string(),
            index: view.card.index,
            id: view.card.id.to_string(),
            class: view.card.class.to_string(),
            model: view.card.model.to_string(),
            healthy: view.card.healthy,
            capacity: named(&view.card.capacity),
            used: named(&view.used),
            units: dimensions()
                .map(|(_, dimension)| (dimension.name.to_string(), dimension.unit.to_string()))
                .collect(),
            pods,
        }
    }
}
