//! The node agent: finds the cards, offers them to the kubelet, and sees to it that every container
//! starts with exactly the card that was decided for its pod, or not at all.
//!
//! ```text
//!  NVML ─► nvml ─► cards ─┬─► publish: offer ─► the Node object
//!                         ├─► plugin::devices ─► ListAndWatch
//!  kubelet ─ Allocate ────┼─► plugin::service: a CDI name never used before
//!  kubelet ─ PreStart ────┴─► start: identity ─► record ─► guard ─► cdi ─► the runtime
//!  API server ─ pods ─► watch ─► state ─► sweep: files of pods that are gone
//!  kernel ─ processes ─► cgroup ─► ends ──┘    └► publish: what is held without a pod
//! ```
//!
//! It decides nothing: the decision is in the pod's allocation record. The agent only checks it and
//! carries it out, and refuses on any doubt.
//!
//! # Current limitations
//!
//! * A card with a permanent error stays sick until the agent restarts.
//! * A card in MIG mode is offered whole.
//! * Static pods cannot use cards: the kubelet knows them by another uid than the API server.

pub mod agent;
pub mod cards;
pub mod cdi;
pub mod cgroup;
pub mod config;
pub mod ends;
pub mod guard;
pub mod identity;
pub mod metrics;
pub mod nvml;
pub mod offer;
pub mod plugin;
pub mod publish;
pub mod start;
pub mod state;
pub mod sweep;
#[cfg(test)]
mod testing;
pub mod watch;
