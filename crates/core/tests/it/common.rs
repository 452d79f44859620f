//! Builders that the core's tests share.

use gpushare_core::card::Card;
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{BoundPod, Ledger};
use gpushare_core::request::{ContainerAsk, PodAsk};
use gpushare_core::{NodeName, Placement, PodUid, Steps, Why};
use gpushare_testkit::model;
pub(crate) use gpushare_testkit::model::{ask, container, share};

/// A whole card, named by its index.
pub(crate) fn card(index: u32, memory: u64) -> Card {
    model::card(&format!("GPU-{index}"), index, memory)
}

/// Whole cards of these sizes.
pub(crate) fn cards(sizes: &[u64]) -> Vec<Card> {
    let sizes = (0..).zip(sizes);
    sizes.map(|(index, size)| card(index, *size)).collect()
}

pub(crate) fn ledger(nodes: &[(&str, &[u64])]) -> Ledger {
    let mut ledger = Ledger::new(gpu::classes());
    for (name, sizes) in nodes {
        ledger.set_node(&node(name), cards(sizes));
    }
    ledger
}

/// A pod with these requests.
pub(crate) fn asks(containers: impl IntoIterator<Item = ContainerAsk>) -> PodAsk {
    PodAsk {
        containers: containers.into_iter().collect(),
    }
}

pub(crate) fn node(name: &str) -> NodeName {
    NodeName::new(name)
}

pub(crate) fn pod(number: usize) -> PodUid {
    PodUid::new(format!("uid-{number}"))
}

/// What the watch would show for a reservation that took effect.
pub(crate) fn bound(ledger: &Ledger, pod: &PodUid, ask: &PodAsk) -> BoundPod {
    let booking = ledger.booking(pod.as_str()).expect("booked");
    BoundPod {
        pod: pod.clone(),
        node: booking.node.clone(),
        ask: ask.clone(),
        placement: booking.placement.clone(),
    }
}

pub(crate) fn fit(ledger: &Ledger, name: &str, pod: &PodUid, ask: &PodAsk) -> Result<(), Why> {
    ledger.fit(name, pod, &ledger.search(ask, &Steps::for_request()))
}

/// Steps of tests. Pods are named by number, and each asks for this much memory of one card.
pub(crate) trait Books {
    fn reserve_for(&mut self, number: usize, name: &str, memory: u64) -> Result<Placement, Why>;

    /// Books the pod where there is room for it.
    fn book(&mut self, number: usize, name: &str, memory: u64);

    /// Whether a node has room for the pod.
    fn fits(&self, number: usize, name: &str, memory: u64) -> Result<(), Why>;

    /// What the watch would show for a booked pod.
    fn seen(&self, number: usize, memory: u64) -> BoundPod;

    /// Memory booked on each card of a node.
    fn used(&self, name: &str) -> Vec<u64>;
}

impl Books for Ledger {
    fn reserve_for(&mut self, number: usize, name: &str, memory: u64) -> Result<Placement, Why> {
        self.reserve(&pod(number), &node(name), &ask(memory))
    }

    fn book(&mut self, number: usize, name: &str, memory: u64) {
        self.reserve_for(number, name, memory).expect("room");
    }

    fn fits(&self, number: usize, name: &str, memory: u64) -> Result<(), Why> {
        fit(self, name, &pod(number), &ask(memory))
    }

    fn seen(&self, number: usize, memory: u64) -> BoundPod {
        bound(self, &pod(number), &ask(memory))
    }

    fn used(&self, name: &str) -> Vec<u64> {
        self.node(name).map_or_else(Vec::new, |node| {
            node.cards().map(|card| card.used.get(MEMORY)).collect()
        })
    }
}
