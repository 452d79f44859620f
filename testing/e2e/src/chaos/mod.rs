//! A campaign against the books: parts are killed, frozen and cut off from the API server, the cluster's own programs
//! restart, and tenants do everything that they are allowed to do. A seed alone determines what is injected ([`plan`]).
//! Functions over what was seen check what must hold afterwards ([`judge`]).

pub mod calm;
pub mod campaign;
pub mod drive;
pub mod fate;
pub mod glimpses;
pub mod judge;
pub mod ledger;
mod panics;
pub mod parts;
pub mod plan;
pub mod proxy;
pub mod recorder;
pub mod tally;
pub mod tenants;

use std::collections::BTreeMap;

use gpushare_core::CardId;

/// Memory in MiB on each card.
pub type Shares = BTreeMap<CardId, u64>;
