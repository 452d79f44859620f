//! The simulator at its boundary: files in, reports out.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "the helpers of tests are tests too"
)]

mod audit;
mod files;
mod golden;
mod shift;
