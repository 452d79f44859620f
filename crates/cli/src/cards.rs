//! `kubectl gpushare cards`: every card with what is booked on it, once or as it changes.

mod cache;
mod report;
mod text;
mod watch;

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use clap::Args;
use gpushare_core::gpu::AliyunUnit;
use gpushare_kube::slim;

use crate::cluster_args::{self, Unit};
use crate::connection::{self, Connection, NODES, Only};
use crate::output::{Form, Output};
use cache::{CardCache, Keeps};
use report::Report;

const EXAMPLES: &str = "Examples:
  kubectl gpushare cards                 every card of the cluster
  kubectl gpushare cards gpu-a gpu-b     of two nodes
  kubectl gpushare cards -l pool=train   of the nodes with a label
  kubectl gpushare cards -o wide         with ids and the pods on each card
  kubectl gpushare cards --watch         again whenever something changes
  kubectl gpushare cards -o json | jq '.cards[] | select(.healthy | not)'";

const FORMS: [Form; 4] = [
    (Output::Text, "A line for each card"),
    (Output::Wide, "With the cards' ids and the pods on them"),
    (
        Output::Json,
        "An object for programs, with the field `cards`",
    ),
    (Output::Yaml, "The same as YAML"),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Only these nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    /// Print again whenever something changes, until Ctrl-C is pressed
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    unit: Unit,
    #[command(flatten)]
    connection: Connection,
}

impl Arguments {
    fn print(&self, cache: &CardCache) -> Result<String> {
        let report = Report::new(cache, &self.nodes)?;
        let none_match = self.selector.is_some() && report.is_empty();
        self.output.print(&report, |wide| {
            if none_match {
                "no node with these labels has cards".to_owned()
            } else {
                text::table(&report, wide)
            }
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    connection::wait_for(async {
        let client = arguments.connection.client().await?;
        if arguments.watch {
            watch::follow(client, arguments).await?;
            return Ok(String::new());
        }
        let mut cache = CardCache::new(arguments.unit.of_records());
        let labels = Only::labels(arguments.selector.as_deref());
        connection::each(&client, NODES, labels, |node: slim::Node| {
            cache.set(&node);
            Ok(())
        })
        .await?;
        connection::each_pod(&client, |pod| cache.set(pod)).await?;
        arguments.print(&cache)
    })
}

/// The table for these nodes and pods; every dialect is read.
pub(crate) fn text_of(nodes: &[slim::Node], pods: &[slim::Pod]) -> Result<String> {
    let mut cache = CardCache::new(cluster_args::of_records(AliyunUnit::default()));
    cache.replace(nodes);
    cache.replace(pods);
    Ok(text::table(&Report::new(&cache, &[])?, false))
}

/// Prints the newest state: on a terminal it replaces the last one, in a file or pipe it is appended.
fn show(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    let clear = if stdout.is_terminal() {
        "\x1b[2J\x1b[H"
    } else {
        ""
    };
    writeln!(stdout, "{clear}{text}")
        .and_then(|()| stdout.flush())
        .context("cannot write to standard output")
}
