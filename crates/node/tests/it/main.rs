//! The agent against a simulated kubelet: real gRPC on real unix sockets, real files, the fake NVML.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise, and so may what it is made of"
)]

mod support;

mod admission;
mod api;
mod cleanup;
mod health;
mod identity;
mod outliving;
mod registration;
mod restarts;
mod shapes;
