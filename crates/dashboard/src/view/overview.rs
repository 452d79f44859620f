//! The whole cluster in a few numbers: how full the cards are, and how much of the rest can still be used.
//!
//! Idle memory is usable only where a pod of the usual size still fits. The usual size is the median of what containers
//! that share cards ask for. So usable memory falls when free memory is scattered in small pieces.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::ledger::CardView;
use gpushare_core::request::Want;
use gpushare_core::{Amounts, PodAsk, gpu};
use serde::Serialize;

use super::Level;
use crate::model::{AllocationState, Model};

/// Cards are counted by how full they are, in this many steps.
const STEPS: usize = 10;

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overview {
    nodes: usize,
    sick: usize,
    pub(crate) pods: usize,
    pub(crate) pending: usize,
    #[serde(flatten)]
    pub(crate) all: Tally,
    /// The usual size in MiB; `None` while no pod shares a card.
    usual: Option<u64>,
    models: BTreeMap<String, OfModel>,
    /// Cards by how much of their memory is used, from empty to full.
    fullness: [usize; STEPS],
}

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct OfModel {
    nodes: usize,
    #[serde(flatten)]
    all: Tally,
}

/// How many cards there are, and how full they are.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Tally {
    cards: usize,
    pub(crate) memory: Level,
    pub(crate) core: Level,
    /// Free memory on healthy cards, and how much of it pods of the usual size could use.
    pub(crate) idle: Level,
}

pub(crate) fn overview(model: &Model) -> Overview {
    let usual = usual_size(model);
    let mut overview = Overview {
        nodes: model.nodes().len(),
        pods: model.ledger().len(),
        pending: model.pods().filter(|(_, pod)| pod.waits()).count(),
        usual: usual.map(|usual| usual.get(gpu::MEMORY)),
        ..Overview::default()
    };
    for node in model.ledger().nodes() {
        let mut models = BTreeSet::new();
        for card in node.cards().filter(|card| *card.card.class == *gpu::CLASS) {
            overview.add(&card, usual.as_ref());
            models.insert(card.card.model.clone());
        }
        for name in models {
            overview.models.entry(name.to_string()).or_default().nodes += 1;
        }
    }
    overview
}

impl Overview {
    fn add(&mut self, card: &CardView<'_>, usual: Option<&Amounts>) {
        self.sick += usize::from(!card.card.healthy);
        let idle = idle(card, usual);
        let of_model = self.models.entry(card.card.model.to_string()).or_default();
        self.all.add(card, idle);
        of_model.all.add(card, idle);
        let fullness = Level::of(card, gpu::MEMORY).percent();
        let step = usize::from(fullness) * STEPS / 100;
        if let Some(count) = self.fullness.get_mut(step.min(STEPS - 1)) {
            *count += 1;
        }
    }
}

impl Tally {
    fn add(&mut self, card: &CardView<'_>, idle: Level) {
        self.cards += 1;
        self.memory.add(Level::of(card, gpu::MEMORY));
        self.core.add(Level::of(card, gpu::CORE));
        self.idle.add(idle);
    }
}

/// A card's free memory, and how much of it is usable: all, or nothing if the usual pod does not fit.
fn idle(card: &CardView<'_>, usual: Option<&Amounts>) -> Level {
    if !card.card.healthy {
        return Level::default();
    }
    let free = card.free();
    let usable = usual.is_none_or(|usual| usual.fits_in(&free));
    let memory = free.get(gpu::MEMORY);
    Level {
        used: if usable { memory } else { 0 },
        size: memory,
    }
}

/// The median of what containers that share cards ask for, in each dimension.
fn usual_size(model: &Model) -> Option<Amounts> {
    let asks = model.pods().filter_map(|(_, pod)| match &pod.allocation {
        AllocationState::Placed { ask, .. } | AllocationState::Waiting { ask, .. } => Some(ask),
        AllocationState::Unproven { .. } | AllocationState::Invalid { .. } => None,
    });
    let shares: Vec<Amounts> = asks.flat_map(shares).collect();
    let median = |dimension| {
        let mut sizes: Vec<u64> = shares.iter().map(|share| share.get(dimension)).collect();
        sizes.sort_unstable();
        sizes.get(sizes.len() / 2).copied()
    };
    Some(Amounts::of(gpu::MEMORY, median(gpu::MEMORY)?).with(gpu::CORE, median(gpu::CORE)?))
}

fn shares(ask: &PodAsk) -> impl Iterator<Item = Amounts> {
    ask.of_class(gpu::CLASS).filter_map(|ask| match &ask.want {
        Want::Share(part) => Some(part.amounts),
        Want::Whole => None,
    })
}

#[cfg(test)]
mod tests;
