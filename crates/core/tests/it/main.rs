//! The core's behaviour, tested through its public surface.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests stop at the first surprise"
)]

mod claim;
mod claims;
mod common;
mod explain;
mod lease;
mod lease_model;
mod ledger;
mod outlived;
mod preempt;
mod props;
mod search;
mod steps;
