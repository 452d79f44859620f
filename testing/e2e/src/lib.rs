//! What the scenarios share: a real cluster with our extender and agent, and ways to inspect it.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "everything here serves tests, which stop at the first surprise"
)]

pub mod api_proxy;
pub mod balancer;
pub mod budget_cluster;
pub mod calendar;
pub mod chaos;
pub mod dashboard;
pub mod fleet;
mod follower;
pub mod history;
pub mod hook;
pub mod interrupt;
pub mod kubectl;
pub mod manifest;
pub mod paper;
pub mod replicas;
pub mod rng;
pub mod setup;
pub mod team;
pub mod teller;
pub mod timekeeper_stub;
pub mod wait;
pub mod world;

pub use gpushare_testkit::http;
pub use gpushare_testkit::process;
pub use kubectl::Kubectl;
pub use setup::Setup;
pub use team::Team;
pub use world::World;

/// A number that `cargo xtask soak` raises.
pub fn setting(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => usual,
    }
}
