//! The commands of this repository: everything a person or CI runs, with nothing to install
//! first. One module per command.

mod bench;
mod cargo;
mod cluster;
mod dashboard;
mod docs;
mod e2e;
mod fuzz;
mod nvidia_smi;
mod packing;
mod python;
mod soak;
mod steps;
mod test;
mod tidy;
mod valgrind;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Build, test and try gpushare.
///
/// Start with `cargo xtask test`: it needs nothing but the Rust toolchain and the package
/// registries. `cargo xtask e2e` runs the same code on a real Kubernetes, which it builds itself the
/// first time (about 15 minutes on 2 cores); it needs root and Go.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Arguments),
    E2e(e2e::Arguments),
    Soak(soak::Arguments),
    Fuzz(fuzz::Arguments),
    Bench(bench::Arguments),
    Cluster(cluster::Arguments),
    Dashboard(dashboard::Arguments),
    Packing(packing::Arguments),
    Docs(docs::Arguments),
    Tidy(tidy::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::E2e(arguments) => e2e::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Fuzz(arguments) => fuzz::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Cluster(arguments) => cluster::run(&arguments),
        Command::Dashboard(arguments) => dashboard::run(&arguments),
        Command::Packing(arguments) => packing::run(&arguments),
        Command::Docs(arguments) => docs::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes, without a backtrace: it is for the person at the terminal.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
