//! The kubectl plugin `kubectl gpushare`: reads the command line and prints.
//!
//! Must not decide anything about cards or pods: that is the business of the cluster components and, for
//! files, of the simulator.

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
    Simulate(simulate::Args),
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
        Command::Simulate(args) => simulate::run(args)?,
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
