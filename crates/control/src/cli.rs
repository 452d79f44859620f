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
    /// Serve the API server: validate new pods that ask for GPUs, and set their defaults and priority
    Webhook(Box<gpushare_webhook::config::RawConfig>),
    /// Charge the GPU time of pods to budgets, and report what is left of each budget
    Timekeeper(Box<gpushare_timekeeper::config::RawConfig>),
    /// Report the budget to the containers of a pod, as a sidecar that the webhook adds
    Sidecar(Box<gpushare_sidecar::config::RawConfig>),
    /// Serve the dashboard: cards, waiting pods and budgets, live in a browser
    Dashboard(Box<gpushare_dashboard::role::config::RawConfig>),
}
