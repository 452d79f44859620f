//! Tests of packing as a whole: hand-made clusters, what is learnt, and what must always hold.

mod always;
mod choices;
mod learning;
mod ranked;

use super::{CardRoom, Fleet, Pick, Policy, PoolSet, Shape, Space, Want};
use gpushare_core::amounts::Amounts;
use gpushare_core::ids::NodeName;

/// MiB of memory and percent of compute.
fn amounts(memory: u64, core: u64) -> Amounts {
    Amounts::of(0, memory).with(1, core)
}

/// A card: its model, size and free room, the latter two as (memory, core).
#[derive(Clone, Copy)]
struct Card(&'static str, (u64, u64), (u64, u64));

/// A card of 16,000 MiB with this percentage free in both dimensions.
fn card(percent: u64) -> Card {
    Card("T4", (16_000, 100), (160 * percent, percent))
}

/// A fleet of nodes with their CPU, each with ample memory.
fn fleet(policy: Policy, nodes: &[(&str, i64, &[Card])]) -> Fleet {
    let mut fleet = Fleet::new(policy);
    for (name, cpu, cards) in nodes {
        let cards = cards.iter().map(|Card(model, size, free)| {
            let size = amounts(size.0, size.1);
            let pool = fleet.pools_mut().intern(model, size).unwrap();
            CardRoom::new(pool, size, amounts(free.0, free.1))
        });
        let space = Space::new(*cpu, 1_000_000, cards.collect()).unwrap();
        fleet.set(&NodeName::new(name), space);
    }
    fleet
}

fn share(cards: u32, memory: u64, core: u64) -> Shape {
    Shape {
        cpu: 1_000,
        memory: 1_000,
        cards,
        want: Want::share(amounts(memory, core)),
        pools: PoolSet::ANY,
    }
}

/// A share of this percentage of one such card in both dimensions.
fn percent(percent: u64) -> Shape {
    share(1, 160 * percent, percent)
}

fn whole(cards: u32) -> Shape {
    Shape {
        want: Want::Whole,
        ..share(cards, 0, 0)
    }
}

/// `node:card,card`, or `nowhere`.
fn chosen(fleet: &Fleet, shape: &Shape) -> String {
    fleet
        .choose(shape)
        .map_or_else(|| "nowhere".to_owned(), |pick| described(fleet, pick))
}

fn described(fleet: &Fleet, pick: Pick) -> String {
    let cards: Vec<String> = pick.cards.iter().map(|card| card.to_string()).collect();
    format!("{}:{}", fleet.name(pick.node).unwrap(), cards.join(","))
}
