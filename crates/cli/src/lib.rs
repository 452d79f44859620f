//! The kubectl plugins: read the command line and the cluster, and print.
//!
//! The core decides about cards and requests, and the simulator packs pods. Only kube-scheduler's own checks, which
//! come before the extender's, are implemented here, for `why`.

mod budget;
mod cards;
mod cluster_args;
mod complete;
mod connection;
mod docs;
mod doctor;
mod fit;
mod from_cluster;
mod gpushare;
mod inspect;
mod output;
mod tabs;
mod why;

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use gpushare_kube::slim;

/// `kubectl gpushare`.
pub fn gpushare() -> ExitCode {
    finish(gpushare::run(&gpushare::Arguments::parse()))
}

/// `kubectl inspect gpushare`, with the name and output of the predecessor's plugin.
pub fn inspect() -> ExitCode {
    finish(inspect::run(&inspect::Arguments::parse()).map(CommandOutput::from))
}

pub use docs::command_lines;

/// What `kubectl gpushare cards` prints for these nodes and pods, for programs that already have them.
pub fn cards_text(nodes: &[slim::Node], pods: &[slim::Pod]) -> Result<String> {
    cards::text_of(nodes, pods)
}

/// kubectl's completion: the words typed so far are this program's arguments.
pub fn complete() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    finish(Ok(CommandOutput::from(complete::answer(&words))))
}

/// The output of a command.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    text: String,
    /// Whether the answer reports a problem, which scripts see by the exit status.
    failed: bool,
}

impl From<String> for CommandOutput {
    fn from(text: String) -> Self {
        Self {
            text,
            failed: false,
        }
    }
}

fn finish(printed: Result<CommandOutput>) -> ExitCode {
    let printed = printed.and_then(|printed| {
        print(&printed.text)?;
        Ok(printed.failed)
    });
    match printed {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::FAILURE,
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", told(&error));
            ExitCode::FAILURE
        }
    }
}

/// The chain of causes on one line, without a backtrace, for the person at the terminal. Client libraries often repeat
/// a cause in their own message; it is printed only once.
fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = match cause.downcast_ref::<kube::Error>() {
            Some(error) => connection::said(error),
            None => cause.to_string(),
        };
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The reader, such as `head`, has stopped reading.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn print(text: &str) -> Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    writeln!(std::io::stdout(), "{text}").context("cannot write to standard output")
}
