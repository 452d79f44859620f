//! `kubectl inspect gpushare`: the predecessor's plugin, reading only the API server.
//!
//! It works on clusters that run gpushare, its predecessor, or both. It must remain a view: it prints only
//! what nodes and pods report.

mod ours;
mod read;
mod text;
mod theirs;
mod usage;

use anyhow::Result;
use clap::Parser;

use crate::connection::{self, Connection};
use crate::output::{Form, Output};

const FORMS: [Form; 2] = [
    (Output::Text, "Tables for people"),
    (
        Output::Json,
        "An object for programs: unit, allocated, total, and nodes with cards and pods",
    ),
];

/// How much of each GPU's memory is allocated, node by node
///
/// Reads only nodes and pods, so it works with gpushare and with the predecessor's components. PENDING is the
/// memory of pods that are on a node but on no known card.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-inspect-gpushare",
    bin_name = "kubectl inspect gpushare",
    version,
    after_help = "Examples:
  kubectl inspect gpushare              a line for each node
  kubectl inspect gpushare -d           every pod, and what it holds of which GPU
  kubectl inspect gpushare -d gpu-node  of one node
  kubectl inspect gpushare -o json | jq '.nodes[] | select(.pending)'

The output has the predecessor's columns. It differs from the predecessor's in these points:
  - Nodes are sorted by name, and pods by their first card.
  - Where gpushare's agent runs, cards of different sizes have their own totals.
  - In a cluster with nodes in GiB and in MiB, everything is in MiB.
  - Memory on a card that the node does not have counts as PENDING.
  - You can name several nodes.
  - Errors go to standard error."
)]
pub(crate) struct Arguments {
    /// Only these nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Every pod, and what it holds of which GPU
    #[arg(short, long)]
    details: bool,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    let usage = connection::wait_for(async {
        let client = arguments.connection.client().await?;
        read::usage(&client, &arguments.nodes).await
    })?;
    arguments.output.print(&usage, |_| {
        if arguments.details {
            text::details(&usage)
        } else {
            text::summary(&usage)
        }
    })
}
