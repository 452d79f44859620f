//! Budgets of GPU time: what a second on a card costs, when periods begin, what must be charged, and the ledger that
//! keeps it.
//!
//! Everything except [`store`] is pure: no clock, no network and no floating point, so the same facts give the same
//! charges after any outage. Only [`store`] uses SQL.

pub mod forecast;
pub mod journal;
pub mod meter;
pub mod money;
pub mod opening;
pub mod period;
pub mod policy;
pub mod price;
pub mod store;

/// A moment in whole seconds since 1970: the API server records no finer.
pub type Seconds = i64;
