//! Which card of a node takes a pod.
//!
//! Tightest card: of the cards that fit, the one that keeps least free, so that large requests find
//! whole cards later. Ties go to the lower index, then to the lower id, never to chance.

use crate::amounts::{Amounts, DeviceClass};
use crate::card::Card;
use crate::why::{CardShort, Why};

/// A card and what is booked on it.
#[derive(Clone, Copy, Debug)]
pub struct CardUse<'a> {
    pub card: &'a Card,
    pub used: Amounts,
}

impl CardUse<'_> {
    pub fn free(&self) -> Amounts {
        self.card.capacity.saturating_sub(&self.used)
    }
}

/// The chosen card and what stays free on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit<'a> {
    pub card: &'a Card,
    pub left: Amounts,
}

/// Chooses among the cards of one node. They may come in any order.
pub fn tightest<'a>(
    class: &DeviceClass,
    cards: impl Iterator<Item = CardUse<'a>> + Clone,
    needed: &Amounts,
) -> Result<Fit<'a>, Why> {
    cards
        .clone()
        .filter(|candidate| candidate.card.healthy && needed.fits_in(&candidate.free()))
        .map(|candidate| Fit {
            card: candidate.card,
            left: candidate.free().saturating_sub(needed),
        })
        .min_by(|a, b| (a.left, a.card.index, &a.card.id).cmp(&(b.left, b.card.index, &b.card.id)))
        .ok_or_else(|| explain(class, cards, needed))
}

fn explain<'a>(
    class: &DeviceClass,
    cards: impl Iterator<Item = CardUse<'a>>,
    needed: &Amounts,
) -> Why {
    let mut cards: Vec<CardUse<'a>> = cards.collect();
    if cards.is_empty() {
        return Why::NoCards {
            class: class.name.clone(),
        };
    }
    cards.sort_by(|a, b| (a.card.index, &a.card.id).cmp(&(b.card.index, &b.card.id)));
    let mut short = Vec::new();
    let mut sick = Vec::new();
    for candidate in cards {
        if !candidate.card.healthy {
            sick.push(candidate.card.index);
        }
        short.extend(short_of(class, &candidate, needed));
    }
    Why::NoRoom {
        needed: describe(class, needed),
        short,
        sick,
    }
}

fn short_of(class: &DeviceClass, candidate: &CardUse<'_>, needed: &Amounts) -> Option<CardShort> {
    let free = candidate.free();
    let missing = needed.saturating_sub(&free);
    let index = (0..crate::amounts::MAX_DIMENSIONS).find(|index| missing.get(*index) > 0)?;
    let dimension = class.dimension(index)?;
    Some(CardShort {
        index: candidate.card.index,
        card: candidate.card.id.clone(),
        dimension: dimension.name.clone(),
        unit: dimension.unit.clone(),
        needed: needed.get(index),
        free: free.get(index),
        size: candidate.card.capacity.get(index),
    })
}

/// `8192 MiB of memory and 50 % of core`
fn describe(class: &DeviceClass, needed: &Amounts) -> String {
    let parts: Vec<String> = class
        .shortage(needed, &Amounts::ZERO)
        .into_iter()
        .map(|(dimension, amount)| format!("{amount} {} of {}", dimension.unit, dimension.name))
        .collect();
    parts.join(" and ")
}
