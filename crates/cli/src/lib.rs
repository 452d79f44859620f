//! The kubectl plugins: read the command line and the cluster, and print.
//!
//! Must not decide anything about cards or pods: that is the business of the cluster components and, for
//! files, of the simulator.

mod budget;
mod cards;
mod connection;
mod from_cluster;
mod gpushare;
mod inspect;
mod tabs;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;

/// `kubectl gpushare`.
pub fn gpushare() -> ExitCode {
    finish(gpushare::run(&gpushare::Arguments::parse()))
}

/// `kubectl inspect gpushare`, the predecessor's plugin by name and output.
pub fn inspect() -> ExitCode {
    finish(inspect::run(&inspect::Arguments::parse()))
}

fn finish(printed: Result<String>) -> ExitCode {
    match printed.and_then(|text| print(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The chain of causes on one line, without a backtrace: it is for the person at the terminal.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    match writeln!(std::io::stdout(), "{text}") {
        // Whoever reads has seen enough, such as `head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}
