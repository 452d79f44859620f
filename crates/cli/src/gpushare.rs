//! The command line of `kubectl gpushare`.

use anyhow::bail;
use clap::{Parser, Subcommand, ValueEnum};
use gpushare_sim::cli as simulate;
use serde_json::json;

use crate::{CommandOutput, budget, cards, docs, doctor, fit, from_cluster, why};

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
    Budget(budget::Arguments),
    /// Show every card and what is booked on it
    ///
    /// Reads what the gpushare agents published and the records on pods, and writes nothing.
    Cards(cards::Arguments),
    /// Say why a pod waits, and what would help
    ///
    /// Reads the API server and decides by the rules that decide in the cluster; also for a pod that does not exist
    /// yet. Writes nothing.
    Why(why::Arguments),
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
    /// Say how many more pods of a shape fit now, and where
    ///
    /// Places copies of the pod on a copy of the cluster's state until no node takes another. Writes nothing.
    Fit(fit::Arguments),
    /// Check an installation and say what to fix
    ///
    /// Looks at the API server, the nodes' agents, the extender, the webhook and what deploy/ puts there. Writes
    /// nothing.
    Doctor(doctor::Arguments),
    /// Print what a shell needs to complete this program's command lines
    Completion(docs::Completion),
    /// Generate the reference from the program itself
    #[command(hide = true, subcommand)]
    Docs(docs::Docs),
    /// Print the version of this program
    #[command(
        after_help = "Examples:\n  kubectl gpushare version\n  kubectl gpushare version -o json | jq -r .version"
    )]
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

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<CommandOutput> {
    let text = match &arguments.command {
        Command::Doctor(arguments) => return doctor::run(arguments),
        Command::Fit(arguments) => fit::run(arguments),
        Command::Completion(arguments) => docs::completion(arguments),
        Command::Docs(docs) => docs::run(docs),
        Command::Budget(arguments) => budget::run(arguments),
        Command::Cards(arguments) => cards::run(arguments),
        Command::Why(arguments) => why::run(arguments),
        Command::Simulate { args, cluster } if args.from_cluster => {
            from_cluster::run(args, cluster)
        }
        Command::Simulate { cluster, .. } if cluster.connection.is_given() => {
            bail!("the flags of a cluster need --from-cluster: files alone were asked for")
        }
        Command::Simulate { args, .. } => Ok(simulate::run(args)?),
        Command::Version { output } => Ok(version(*output)),
    };
    text.map(CommandOutput::from)
}

fn version(output: Output) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Output::Text => format!("kubectl-gpushare {version}"),
        Output::Json => json!({ "version": version }).to_string(),
    }
}
