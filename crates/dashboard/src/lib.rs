//! The dashboard: what a cluster's cards hold, who waits and why, and what budgets have left, live in a browser.
//!
//! ```text
//! watches ──► Model (books of the core) ──► view (pure: model → rows) ──► Feed (what changed, numbered)
//!                                                                          │
//! browser ◄── page, embedded in the program; /api/snapshot; /api/stream (server-sent events) ◄┘
//! ```
//!
//! It reads the cluster and writes nothing. Books and reasons come from the core, by the same code that the
//! extender decides with. Who may look is decided in [`access`].

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
