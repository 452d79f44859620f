//! The rig itself, on real clusters. Needs root and the cluster's programs, so only
//! `cargo xtask e2e` builds and runs it.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops at the first surprise"
)]

mod cluster;
mod lifecycle;
mod support;
