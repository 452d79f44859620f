//! Nodes and pods with gpushare's inventory and records: exact to the MiB, for cards of any size and pods
//! of every dialect.

use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::request::{PodAsk, Want};
use gpushare_core::{Card, Classes};
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::slim;

use crate::cluster_args::of_records;

/// The GPUs of a node in the order of their indexes; `None` if no gpushare agent has published a readable
/// inventory.
pub(super) fn cards(node: &slim::Node, classes: &Classes) -> Option<Vec<Card>> {
    let mut cards = convert::cards(node, classes).ok().flatten()?;
    cards.retain(|card| *card.class == *gpu::CLASS);
    cards.sort_by_key(|card| card.index);
    (!cards.is_empty()).then_some(cards)
}

/// What the pod holds according to its record, in MiB, by position among the cards. `None` if it has no
/// valid record.
pub(super) fn held(
    pod: &slim::Pod,
    cards: &[Card],
    unit: AliyunUnit,
) -> Option<Vec<(Option<usize>, u64)>> {
    let dialects = of_records(unit);
    let facts = PodFacts::new(pod, &dialects);
    let bound = facts.bound(&dialects.classes)?.ok()?;
    let charges = bound.placement.of_class(gpu::CLASS).charges(&bound.ask);
    let held = charges.iter().map(|(id, hold)| {
        let position = cards.iter().position(|card| card.id == *id);
        let capacity = position
            .and_then(|position| cards.get(position))
            .map(|card| card.capacity);
        let amounts = hold.on(&capacity.unwrap_or_default());
        (position, amounts.get(gpu::MEMORY))
    });
    Some(held.collect())
}

/// What a pod without a record asks for, in MiB: its card is unknown.
pub(super) fn asked(pod: &slim::Pod, unit: AliyunUnit) -> Option<Vec<(Option<usize>, u64)>> {
    let facts = PodFacts::new(pod, &gpu::dialects(unit));
    let ask = facts.ask.ok().flatten()?;
    Some(vec![(None, memory(&ask))])
}

fn memory(ask: &PodAsk) -> u64 {
    let gpus = ask
        .containers
        .iter()
        .filter(|ask| *ask.class == *gpu::CLASS);
    let each = gpus.map(|ask| match &ask.want {
        Want::Whole => 0,
        Want::Share(part) => part
            .amounts
            .get(gpu::MEMORY)
            .saturating_mul(ask.cards.into()),
    });
    each.fold(0, u64::saturating_add)
}
