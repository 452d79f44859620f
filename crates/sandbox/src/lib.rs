//! A whole cluster in one process, to try gpushare on: `cargo run --release`.
//!
//! ```text
//!  kubectl ─► embedded API server ◄─ story
//!                │  ▲  calls the webhook (production code) by HTTPS
//!     ┌──────────┼──┴───────────┬──────────────────┬────────────────┐
//!  scheduler*  extender    controllers*         kubelets*  ◄─gRPC─►  agents
//!     └──HTTP──►                              (one for each simulated node)
//! ```
//!
//! Extender, webhook, timekeeper, dashboard and agents are the production code, started as their programs start them.
//! Components with a star are stand-ins that exist only here; the API server (`gpushare-apiserver`) and the cards are
//! stand-ins too.
//!
//! # Current limitations
//! - Containers are not run: they are "running" for a time guessed from their manifest, and their log is the
//!   environment that they would have.
//! - The scheduler knows priorities, resources, taints, selectors and node affinity; not pod affinity, topology spread,
//!   ports or volumes.
//! - Deployments are rolled out at once; DaemonSets, CronJobs and volume claims are stored but have no effect.
//! - Agents run on the first nodes only ([`fleet::AGENTS`]); the others' cards are published by the same code, once.

mod api;
mod controllers;
mod error;
mod events;
pub mod fleet;
mod install;
mod kubelet;
mod mirror;
pub mod options;
mod pace;
mod sandbox;
mod scheduler;
pub mod story;
mod wait;

pub use error::SandboxError;
pub use options::Options;
pub use sandbox::{Sandbox, remove};
