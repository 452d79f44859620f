//! The dashboard: what a cluster's cards hold, who waits and why, and what budgets have left, live in a browser.
//!
//! ```text
//! watches ──► Model (books of the core) ──► view (pure: model → rows) ──► Feed (what changed, numbered)
//!                                                                          │
//! browser ◄── page, embedded in the program; /api/snapshot; /api/stream (server-sent events) ◄┘
//! ```
//!
//! It reads the cluster and writes nothing. Books and reasons come from the core, from the same code with which the
//! extender decides. [`access`] decides who may view it.

pub mod access;
mod feed;
mod history;
mod metrics;
mod model;
pub mod role;
mod routes;
mod start;
mod view;
mod watch;

pub use metrics::metrics;
pub use start::{Config, Dashboard, StartError, start};
