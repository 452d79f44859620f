//! The ledger on both real databases: one suite, what must hold in any order of events, and writers that are killed.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests stop at the first surprise"
)]

mod append_only;
mod conformance;
mod damage;
mod database;
mod encrypted;
mod killed;
mod order;
