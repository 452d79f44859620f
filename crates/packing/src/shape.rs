//! Shapes: what a pod asks for, as far as packing is concerned.

use super::grain::{self, GRAINS};
use super::pool::{Pool, PoolSet};

pub use gpushare_core::request::Want;

/// A pod's request. Equal shapes are interchangeable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Host memory in MiB.
    pub memory: i64,
    /// How many cards; each gives the same amounts.
    pub cards: u32,
    pub want: Want,
    /// The pools that may serve it.
    pub pools: PoolSet,
}

impl Shape {
    /// A pod that needs no card but competes for the CPU and memory of nodes with cards.
    pub fn without_cards(cpu: i64, memory: i64) -> Self {
        Self {
            cpu,
            memory,
            cards: 0,
            want: Want::Whole,
            pools: PoolSet::ANY,
        }
    }

    /// How much the shape takes of each card if the cards are of this pool, in grains; `None` if even an empty card is
    /// too small.
    pub fn size_on(&self, pool: &Pool) -> Option<i64> {
        match &self.want {
            Want::Whole => Some(GRAINS),
            Want::Share(part) => grain::size(&part.on(&pool.capacity), &pool.capacity),
        }
    }
}
