//! The simulator on its own: the same command line that `kubectl-gpushare simulate` has.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use gpushare_sim::cli;

#[derive(Parser)]
#[command(about = "Replay a trace of pods against a cluster and report how full it gets")]
struct Command {
    #[command(flatten)]
    args: cli::Args,
}

fn main() -> ExitCode {
    match cli::run(&Command::parse().args) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(source) = cause {
                eprint!(": {source}");
                cause = source.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}
