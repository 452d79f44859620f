//! The dashboard as browsers and programs reach it, over a cluster on the embedded API server.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod access;
mod cluster;
mod http;
mod page;
mod reviews;
mod stream;
