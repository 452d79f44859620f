//! A campaign against the books: parts die, stand still and lose their way to the API server, the cluster's own programs restart,
//! and tenants do everything that they may do. What is injected follows from a seed alone ([`plan`]); what must hold
//! afterwards is judged by functions over what was seen ([`judge`]).

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

/// Memory in MiB by card.
pub type Shares = BTreeMap<CardId, u64>;
