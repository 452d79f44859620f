//! Builders that the core's tests share.

use std::sync::Arc;

use gpushare_core::card::Card;
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{Bound, Ledger};
use gpushare_core::request::{ContainerAsk, PodAsk, Role, Want};
use gpushare_core::{Amounts, CardId, NodeName, PodUid, Steps, Why};

pub(crate) fn card(index: u32, memory: u64) -> Card {
    Card {
        id: CardId::new(format!("GPU-{index}")),
        class: gpu::CLASS.into(),
        index,
        model: "NVIDIA A10".into(),
        capacity: Amounts::of(MEMORY, memory).with(gpu::CORE, gpu::WHOLE_CORE),
        healthy: true,
    }
}

pub(crate) fn ask(memory: u64) -> PodAsk {
    PodAsk {
        containers: [container("c", Role::App, 1, share(memory))].into(),
    }
}

pub(crate) fn share(memory: u64) -> Want {
    Want::share(Amounts::of(MEMORY, memory))
}

pub(crate) fn container(name: &str, role: Role, cards: u32, want: Want) -> ContainerAsk {
    ContainerAsk {
        container: name.into(),
        role,
        index: 0,
        class: gpu::CLASS.into(),
        dialect: gpu::OURS.into(),
        cards,
        want,
        limit: Amounts::ZERO,
        choice: Arc::default(),
    }
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
