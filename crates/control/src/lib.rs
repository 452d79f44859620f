//! The control plane of gpushare: one library and one binary, a role per subcommand.
//!
//! [`extender`] decides where pods go; [`leader`] decides which replica does it. [`webhook`] judges pods before they
//! exist. [`timekeeper`] charges what they hold to budgets. Configuration is read once, at start, in [`config`].

mod body;
mod client;
pub mod config;
pub mod extender;
pub mod leader;
pub mod start;
pub mod timekeeper;
pub mod webhook;
