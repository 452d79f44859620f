//! The kubectl plugin `kubectl gpushare`: reads the command line and prints.
//!
//! Must not decide anything about cards or pods: that is the business of the cluster components and, for
//! files, of the simulator.

mod from_cluster;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use gpushare_sim::cli as simulate;
use serde_json::json;

/// Shared GPUs of a Kubernetes cluster, from the command line.
///
/// kubectl finds this program on the PATH and runs it as `kubectl gpushare`.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gpushare",
    bin_name = "kubectl gpushare",
    arg_required_else_help = true
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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

fn main() -> ExitCode {
    match run(&Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes on one line, without a backtrace: it is for the person at the terminal.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> anyhow::Result<()> {
    let text = match command {
        Command::Simulate { args, cluster } if args.from_cluster => {
            from_cluster::run(args, cluster)?
        }
        Command::Simulate { args, .. } => simulate::run(args)?,
        Command::Version { output } => version(*output),
    };
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}

fn version(output: Output) -> String {
    let version = env!("CARGO_PKG_VERSION");
    match output {
        Output::Text => format!("kubectl-gpushare {version}"),
        Output::Json => json!({ "version": version }).to_string(),
    }
}
