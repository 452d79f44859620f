//! The command line of `gpushare-control`: a subcommand for each role, with the flags of its configuration.

use clap::{Args, Command, Parser, Subcommand};

use crate::{config, dashboard, sidecar, timekeeper, webhook};

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
    Extender(Box<config::RawConfig>),
    /// Serve the API server: check, complete and rank pods that ask for GPUs before they exist
    Webhook(Box<webhook::config::RawConfig>),
    /// Keep the ledger: charge what pods hold to budgets, and say how budgets stand
    Timekeeper(Box<timekeeper::config::RawConfig>),
    /// Tell the containers of a pod how their budget stands, as a sidecar that the webhook adds
    Sidecar(Box<sidecar::config::RawConfig>),
    /// Serve people: cards, pods that wait and budgets, live in a browser
    Dashboard(Box<dashboard::config::RawConfig>),
}

/// The flags of one role, read as its program reads them: for whoever has them in another place than a command line.
pub fn read<'a, Flags: Args>(
    flags: impl IntoIterator<Item = &'a str>,
) -> Result<Flags, clap::Error> {
    let command = Flags::augment_args(Command::new("flags").no_binary_name(true));
    Flags::from_arg_matches(&command.try_get_matches_from(flags)?)
}
