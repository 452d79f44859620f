//! The extender through its router, as kube-scheduler uses it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "helpers of tests stop at the first surprise, as tests do"
)]

mod bad_input;
mod cluster;
mod kubernetes;
mod samples;
mod verbs;
