//! The inventory: a node's cards, as the node agent publishes them in the node's annotation.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amounts::Classes;
use crate::card::Card;
use crate::ids::CardId;

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Inventory {
    version: u32,
    cards: Vec<CardEntry>,
}

#[derive(Serialize, Deserialize)]
struct CardEntry {
    id: CardId,
    class: String,
    index: u32,
    #[serde(default)]
    model: String,
    capacity: BTreeMap<String, u64>,
    #[serde(default = "yes")]
    healthy: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum InventoryError {
    #[error("the inventory cannot be read: {0}")]
    Malformed(String),
    #[error("the inventory has version {0}, this gpushare understands {VERSION}")]
    Version(u32),
    #[error("the inventory names card {0} twice")]
    Twice(CardId),
    #[error("card {card} has an unknown capacity {dimension:?}")]
    UnknownDimension { card: CardId, dimension: String },
}

/// Leaves out cards of classes that are not configured.
pub fn encode(classes: &Classes, cards: &[Card]) -> String {
    let cards = cards
        .iter()
        .filter_map(|card| {
            Some(CardEntry {
                id: card.id.clone(),
                class: card.class.to_string(),
                index: card.index,
                model: card.model.to_string(),
                capacity: classes.get(&card.class)?.named(&card.capacity),
                healthy: card.healthy,
            })
        })
        .collect();
    serde_json::to_string(&Inventory {
        version: VERSION,
        cards,
    })
    .unwrap_or_else(|_| unreachable!("all keys are strings"))
}

/// Leaves out cards of classes that are not configured here, because we cannot judge them.
pub fn decode(classes: &Classes, text: &str) -> Result<Vec<Card>, InventoryError> {
    let inventory: Inventory =
        serde_json::from_str(text).map_err(|error| InventoryError::Malformed(error.to_string()))?;
    if inventory.version != VERSION {
        return Err(InventoryError::Version(inventory.version));
    }
    let mut seen = BTreeSet::new();
    let mut cards: Vec<Card> = Vec::new();
    for entry in inventory.cards {
        let Some(class) = classes.get(&entry.class) else {
            continue;
        };
        if !seen.insert(entry.id.clone()) {
            return Err(InventoryError::Twice(entry.id));
        }
        let capacity = class.amounts(&entry.capacity).map_err(|dimension| {
            InventoryError::UnknownDimension {
                card: entry.id.clone(),
                dimension,
            }
        })?;
        let alike = cards.iter().find(|card| *card.model == *entry.model);
        let model = alike.map_or_else(|| entry.model.into(), |card| card.model.clone());
        cards.push(Card {
            id: entry.id,
            class: class.name.clone(),
            index: entry.index,
            model,
            capacity,
            healthy: entry.healthy,
        });
    }
    Ok(cards)
}
