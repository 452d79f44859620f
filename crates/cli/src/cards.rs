//! `kubectl gpushare cards`: every card with what is booked on it, once or as it changes.

mod known;
mod report;
mod text;
mod watch;

use std::io::{IsTerminal, Write};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_kube::slim;

use crate::connection::{self, Connection, NODES, Only, PODS};
use known::Known;
use report::Report;

pub(crate) const EXAMPLES: &str = "Examples:
  kubectl gpushare cards                 every card of the cluster
  kubectl gpushare cards gpu-a gpu-b     of two nodes
  kubectl gpushare cards -l pool=train   of the nodes with a label
  kubectl gpushare cards -o wide         with ids and the pods on each card
  kubectl gpushare cards --watch         again whenever something changes
  kubectl gpushare cards -o json | jq '.cards[] | select(.healthy | not)'";

#[derive(Args, Clone, Debug)]
pub(crate) struct Arguments {
    /// Only these nodes
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,
    /// Only nodes with these labels
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Print again whenever something changes, until Ctrl-C is pressed
    #[arg(short, long)]
    watch: bool,
    /// What one aliyun.com/gpu-mem means in the cluster, GiB or MiB
    #[arg(long, value_name = "UNIT", default_value = "GiB")]
    aliyun_memory_unit: AliyunUnit,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A line for each card
    Text,
    /// With the cards' ids and the pods on them
    Wide,
    /// An object for programs, with the field `cards`
    Json,
    /// The same as YAML
    Yaml,
}

impl Arguments {
    /// A record proves that gpushare placed the pod, so HAMi's resources need no flag here.
    fn dialects(&self) -> Dialects {
        gpu::read(Reading {
            aliyun: self.aliyun_memory_unit,
            hami: true,
        })
    }

    fn print(&self, known: &Known) -> Result<String> {
        let report = Report::new(known, &self.nodes)?;
        Ok(match self.output {
            Output::Text | Output::Wide if self.selector.is_some() && report.is_empty() => {
                "no node with these labels has cards".to_owned()
            }
            Output::Text => text::table(&report, false),
            Output::Wide => text::table(&report, true),
            Output::Json => serde_json::to_string_pretty(&report)?,
            Output::Yaml => serde_saphyr::to_string(&report)
                .context("cannot write YAML")?
                .trim_end()
                .to_owned(),
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
        let mut known = Known::new(arguments.dialects());
        let labels = Only::labels(arguments.selector.as_deref());
        connection::each(&client, NODES, labels, |node: slim::Node| {
            known.set_node(&node);
            Ok(())
        })
        .await?;
        connection::each(&client, PODS, Only::Everything, |pod: slim::Pod| {
            known.set_pod(&pod);
            Ok(())
        })
        .await?;
        arguments.print(&known)
    })
}

/// The table for these nodes and pods; every dialect is read.
pub(crate) fn text_of(nodes: &[slim::Node], pods: &[slim::Pod]) -> Result<String> {
    let mut known = Known::new(gpu::read(Reading {
        aliyun: AliyunUnit::default(),
        hami: true,
    }));
    for node in nodes {
        known.set_node(node);
    }
    for pod in pods {
        known.set_pod(pod);
    }
    Ok(text::table(&Report::new(&known, &[])?, false))
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
