//! Builders that the core's tests share.

use gpushare_core::card::Card;
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{Bound, Ledger};
use gpushare_core::request::PodAsk;
use gpushare_core::{NodeName, PodUid, Steps, Why};
use gpushare_testkit::model;
pub(crate) use gpushare_testkit::model::{ask, container, share};

/// A whole card, named by its index.
pub(crate) fn card(index: u32, memory: u64) -> Card {
    model::card(&format!("GPU-{index}"), index, memory)
}

pub(crate) fn ledger(nodes: &[(&str, &[u64])]) -> Ledger {
    let mut ledger = Ledger::new(gpu::classes());
    for (name, sizes) in nodes {
        let cards = (0..)
            .zip(*sizes)
            .map(|(index, size)| card(index, *size))
            .collect();
        ledger.set_node(&node(name), cards);
    }
    ledger
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name)
}

pub(crate) fn pod(number: usize) -> PodUid {
    PodUid::new(format!("uid-{number}"))
}

/// Memory booked on each card of a node.
pub(crate) fn used(ledger: &Ledger, name: &str) -> Vec<u64> {
    ledger.node(name).map_or_else(Vec::new, |node| {
        node.cards().map(|card| card.used.get(MEMORY)).collect()
    })
}

/// What the watch would show for a reservation that took effect.
pub(crate) fn bound(ledger: &Ledger, pod: &PodUid, ask: &PodAsk) -> Bound {
    let booking = ledger.booking(pod.as_str()).expect("booked");
    Bound {
        pod: pod.clone(),
        node: booking.node.clone(),
        ask: ask.clone(),
        placement: booking.placement.clone(),
    }
}

pub(crate) fn fit(ledger: &Ledger, name: &str, pod: &PodUid, ask: &PodAsk) -> Result<(), Why> {
    ledger.fit(name, pod, &ledger.search(ask, &Steps::for_request()))
}
