//! `kubectl gpushare budget`: shows budgets and their usage, and grants a budget more GPU time.
//!
//! `show` reads only the API server. `grant` and `statement` call the timekeeper, which checks the caller's rights.

mod forward;
mod grant;
mod reach;
mod show;
mod statement;

use anyhow::Result;
use clap::{Args, Subcommand};

const EXAMPLES: &str = "Examples:
  kubectl gpushare budget show                       the budget of the current namespace
  kubectl gpushare budget statement --month 2026-10  what the namespace used in October
  kubectl gpushare budget grant vision 20h --reason 'conference deadline'

Exit status: 0 when it is done; 1 when it is refused or fails; 2 when the command line is wrong.";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Debug, Subcommand)]
enum Command {
    /// Show how much of each budget is used and how much is left
    ///
    /// Reads the GpuBudget objects from the API server; the timekeeper is not asked.
    Show(show::Arguments),
    /// Grant a budget more for its current period
    ///
    /// Needs the verb grant on gpubudgets.gpushare.io. The ledger keeps who granted it, and why.
    Grant(grant::Arguments),
    /// Print what was used in a month, to the second
    ///
    /// Needs the verb get on budgetstatements.gpushare.io in the namespace. Everyone who may view the namespace has it by default.
    Statement(statement::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<String> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Grant(arguments) => grant::run(arguments),
        Command::Statement(arguments) => statement::run(arguments),
    }
}
