//! Packing: which node and which cards take a pod, so that the cluster holds the most.
//!
//! A [`Shape`] is what a pod asks for, a [`Space`] what a node has free, a [`Policy`] a list of criteria, and a
//! [`Fleet`] chooses. All arithmetic uses integers, so the same requests give the same placements on every machine. The
//! durable bookings are in the [ledger](gpushare_core::ledger), not here. [`Packing`] models a real cluster for a
//! policy.

mod cluster;
mod cutting;
mod fading;
mod fgd;
pub mod fleet;
pub mod grain;
mod lessons;
mod mix;
pub mod policy;
pub mod pool;
mod prices;
pub mod rankings;
mod scarcity;
pub mod shape;
pub mod space;
mod stock;
mod strand;
#[cfg(test)]
mod tests;
mod turnover;
mod usable;

pub use cluster::Packing;
pub use fleet::{Fleet, Key, Pick, Term};
pub use grain::GRAINS;
pub use policy::Policy;
pub use pool::{Pool, PoolId, PoolSet, Pools};
pub use rankings::Rankings;
pub use shape::{Shape, Want};
pub use space::{CardRoom, CardSet, Space};
