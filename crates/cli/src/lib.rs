//! The kubectl plugins: read the command line and the cluster, and print.
//!
//! What is decided about cards and requests is decided by the core, and how pods are packed by the simulator. Only what
//! kube-scheduler looks at before it asks us is judged here, for `why`.

mod budget;
mod cards;
mod complete;
mod connection;
mod docs;
mod doctor;
mod fit;
mod from_cluster;
mod gpushare;
mod inspect;
mod served;
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

/// `kubectl inspect gpushare`, the predecessor's plugin by name and output.
pub fn inspect() -> ExitCode {
    finish(inspect::run(&inspect::Arguments::parse()).map(Printed::from))
}

/// What `kubectl gpushare cards` prints of these nodes and pods, for programs that have them at hand.
pub fn cards_text(nodes: &[slim::Node], pods: &[slim::Pod]) -> Result<String> {
    cards::text_of(nodes, pods)
}

/// What kubectl's completion asks for: the words so far are this program's arguments.
pub fn complete() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    finish(Ok(Printed::from(complete::answer(&words))))
}

/// What a command has to say.
#[derive(Debug)]
pub(crate) struct Printed {
    text: String,
    /// It is an answer, and not a good one: scripts see it by the exit status.
    failed: bool,
}

impl From<String> for Printed {
    fn from(text: String) -> Self {
        Self {
            text,
            failed: false,
        }
    }
}

fn finish(printed: Result<Printed>) -> ExitCode {
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

/// The chain of causes on one line, without a backtrace: it is for the person at the terminal. Clients repeat a cause in
/// what they say of it; once is enough.
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

/// Whoever reads has seen enough, such as `head`.
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
