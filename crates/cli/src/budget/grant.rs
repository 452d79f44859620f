//! `budget grant`: more for a budget, by somebody's decision.

use anyhow::{Context, Result};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::reach::Reach;
use crate::connection;

#[derive(Args, Clone, Debug)]
pub(super) struct Arguments {
    /// The budget
    #[arg(value_name = "NAME")]
    budget: String,
    /// How much: 20h, 1d12h, 90m, or GPU-seconds as a number
    amount: String,
    /// Why; it stands in the ledger
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Makes the grant one of a kind: the same id is granted once. Without it a new one
    #[arg(long)]
    id: Option<String>,
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
            // A refusal is certain; a lost answer is not.
            if error.is::<kube::Error>() {
                let doubt =
                    format!("it may have been granted all the same: try again with --id {id}");
                error.context(doubt)
            } else {
                error
            }
        })?;
        let granted: Grant = serde_json::from_str(&granted)
            .context("the timekeeper's answer cannot be read; is it of another version?")?;
        Ok(format!(
            "granted {} GPU-seconds to {} for the period from {} (author {}, id {})",
            granted.amount,
            arguments.budget,
            granted.period_starts.unwrap_or_default(),
            granted.author,
            granted.id
        ))
    })
}
