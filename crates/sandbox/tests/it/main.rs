//! The sandbox as its user sees it: through the API server, and as a program.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop at the first surprise, and so may what it is made of"
)]

mod dialects;
mod program;
mod starting;
mod story;
mod support;
mod workloads;
