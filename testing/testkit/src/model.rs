//! Cards and requests as the types of `gpushare-core`.

use std::sync::Arc;

use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::request::{ContainerAsk, PodAsk, Role, Want};
use gpushare_core::{Amounts, Card, CardId, inventory, names};
use serde_json::{Value, json};

/// A healthy card with so much memory.
pub fn card(id: &str, index: u32, memory: u64) -> Card {
    Card {
        id: CardId::new(id),
        class: gpu::CLASS.into(),
        index,
        model: "NVIDIA A10".into(),
        capacity: Amounts::of(MEMORY, memory).with(gpu::CORE, gpu::WHOLE_CORE),
        healthy: true,
    }
}

/// Cards with these sizes in MiB, named `GPU-<node>-<index>`.
pub fn cards(node: &str, mib: &[u64]) -> Vec<Card> {
    (0..)
        .zip(mib)
        .map(|(index, memory)| card(&format!("GPU-{node}-{index}"), index, *memory))
        .collect()
}

/// A Node whose agent has published these cards.
pub fn node(name: &str, cards: &[Card]) -> Value {
    let published = inventory::encode(&gpu::classes(), cards);
    json!({"metadata": {"name": name, "annotations": {names::CARDS: published}}})
}

/// A pod with one container, which asks for so much memory of one card.
pub fn ask(memory: u64) -> PodAsk {
    PodAsk {
        containers: [container("c", Role::App, 1, share(memory))].into(),
    }
}

pub fn share(memory: u64) -> Want {
    Want::share(Amounts::of(MEMORY, memory))
}

pub fn container(name: &str, role: Role, cards: u32, want: Want) -> ContainerAsk {
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
