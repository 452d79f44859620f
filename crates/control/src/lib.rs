//! The control plane of gpushare: one library and one binary, a role per subcommand.
//!
//! [`extender`] decides where pods go; [`leader`] decides which replica does it. [`webhook`] judges pods before they
//! exist. [`timekeeper`] charges what they hold to budgets; [`sidecar`] tells an application its budget, from inside its
//! pod. [`dashboard`] shows the cluster to people. Configuration is read once, at start, in [`config`]; [`cli`] is
//! the command line.

mod body;
pub mod cli;
mod client;
pub mod config;
pub mod dashboard;
pub mod extender;
pub mod leader;
pub mod sidecar;
pub mod start;
pub mod timekeeper;
pub mod webhook;

/// The target of log lines about who did, or was refused, what.
pub(crate) const AUDIT: &str = "gpushare::audit";
