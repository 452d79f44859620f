//! The command line of `kubectl gpushare`.

use anyhow::bail;
use clap::{Parser, Subcommand, ValueEnum};
use gpushare_sim::cli as simulate;
use serde_json::json;

use crate::{budget, cards, from_cluster};

/// Shared GPUs of a Kubernetes cluster, from the command line.
///
/// kubectl finds this program on the PATH and runs it as `kubectl gpushare`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gpushare",
    bin_name = "kubectl gpushare",
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show budgets of GPU time, state what was used, and grant more
    #[command(after_help = budget::EXAMPLES)]
    Budget(budget::Arguments),
    /// Show every card and what is booked on it
    ///
    /// Reads what the gpushare agents published and the records on pods, and writes nothing.
    #[command(after_help = cards::EXAMPLES)]
    Cards(cards::Arguments),
    /// Replay a trace of pods against a cluster and report how full it gets
    ///
    /// Pods arrive one by one and are placed by the code that serves a cluster; one that fits nowhere is
    /// dropped. An independent audit checks every decision. With --from-cluster the cluster is yours as it
    /// is now, which is only read, and the answer is how many more pods fit.
    #[command(
        after_help = "Run with --help for examples and the files' formats.",
        after_long_help = simulate::EXAMPLES
    )]
    Simulate {
        #[command(flatten)]
        args: Box<simulate::Args>,
        #[command(flatten)]
        cluster: from_cluster::Cluster,
    },
    /// Print the version of this program
    Version {
        /// How to print it
        #[arg(short, long, value_enum, default_value_t = Output::Text)]
        output: Output,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// A line for people
    Text,
    /// An object for programs, with the field `version`
    Json,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<String> {
    match &arguments.command {
        Command::Budget(arguments) => budget::run(arguments),
        Command::Cards(arguments) => cards::run(arguments),
        Command::Simulate { args, cluster } if args.from_cluster => {
            from_cluster::run(args, cluster)
        }
        Command::Simulate { cluster, .. } if cluster.connection.is_given() => {
            bail!("--kubeconfig and --context need --from-cluster: files alone were asked for")
        }
        Command::Simulate { args, .. } => Ok(simulate::run(args)?),
        Command::Version { output } => Ok(version(*output)),
    }
}

fn version(output: Output) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Output::Text => format!("kubectl-gpushare {version}"),
        Output::Json => json!({ "version": version }).to_string(),
    }
}
