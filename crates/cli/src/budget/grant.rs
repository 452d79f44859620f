//! `budget grant`: grants a budget more GPU time for its current period.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::reach::Reach;
use crate::connection;
use crate::output::{Form, Output};

const EXAMPLES: &str = "Examples:
  kubectl gpushare budget grant vision 20h --reason 'conference deadline'
  kubectl gpushare budget grant vision 1d12h --reason 'ticket 4711' --id ticket-4711   once, however often it is run
  kubectl gpushare budget grant vision 3600 --reason test -o json | jq -r .id

Exit status: 0 when it is granted; 1 when the timekeeper refuses or cannot be asked; 2 when the command line is
wrong.";

const FORMS: [Form; 2] = [
    (Output::Text, "A line for people"),
    (Output::Json, "For programs, as the timekeeper gives it"),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The budget
    #[arg(value_name = "NAME")]
    budget: String,
    /// How much: 20h, 1d12h, 90m, or GPU-seconds as a number
    amount: String,
    /// The reason, which is kept in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// An id of this grant; a second grant with the same id has no effect. By default a new id
    #[arg(long)]
    id: Option<String>,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    id: String,
    amount: String,
    author: String,
    period_starts: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<String> {
    let id = arguments.id.clone();
    let id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
    let amount = match arguments.amount.parse::<i64>() {
        Ok(seconds) => Value::from(seconds),
        Err(_) => Value::from(arguments.amount.as_str()),
    };
    let body = json!({"id": id, "amount": amount, "reason": arguments.reason});
    connection::wait_for(async {
        let timekeeper = arguments.reach.timekeeper().await?;
        let path = format!("/v1/budgets/{}/grants", arguments.budget);
        let granted = timekeeper.post(&path, &body).await.map_err(|error| {
            // After a refusal nothing was granted; after a lost answer that is unknown.
            if error.is::<kube::Error>() {
                let doubt =
                    format!("it may have been granted all the same: try again with --id {id}");
                error.context(doubt)
            } else {
                error
            }
        })?;
        arguments.print(&granted)
    })
}

impl Arguments {
    fn print(&self, said: &str) -> Result<String> {
        let unreadable = "the timekeeper's answer cannot be read; is it of another version?";
        let granted: Grant = serde_json::from_str(said).context(unreadable)?;
        let whole: Value = serde_json::from_str(said).context(unreadable)?;
        self.output.print(&whole, |_| {
            format!(
                "granted {} GPU-seconds to {} for the period from {} (author {}, id {})",
                granted.amount,
                self.budget,
                granted.period_starts.unwrap_or_default(),
                granted.author,
                granted.id
            )
        })
    }
}
