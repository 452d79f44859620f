//! The command line of `gpushare-control`: a subcommand for each role, with the flags of its configuration.

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(
    name = "gpushare-control",
    version,
    about = "The control plane of gpushare"
)]
pub struct Cli {
    #[command(subcommand)]
    pub role: Role,
}

#[derive(Debug, Subcommand)]
pub enum Role {
    /// Serve kube-scheduler: filter, prioritize and bind pods that share GPUs
    Extender(Box<gpushare_extender::config::RawConfig>),
    /// Serve the API server: check, complete and rank pods that ask for GPUs before they exist
    Webhook(Box<gpushare_webhook::config::RawConfig>),
    /// Keep the ledger: charge what pods hold to budgets, and say how budgets stand
    Timekeeper(Box<gpushare_timekeeper::config::RawConfig>),
    /// Tell the containers of a pod how their budget stands, as a sidecar that the webhook adds
    Sidecar(Box<gpushare_sidecar::config::RawConfig>),
    /// Serve people: cards, pods that wait and budgets, live in a browser
    Dashboard(Box<gpushare_dashboard::role::config::RawConfig>),
}
