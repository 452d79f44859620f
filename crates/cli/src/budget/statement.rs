//! `budget statement`: prints what was used in a month, as reported by the timekeeper.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use super::reach::Reach;
use crate::connection;
use crate::tabs::align;

const EXAMPLES: &str = "Examples:
  kubectl gpushare budget statement                              what the namespace used this month
  kubectl gpushare budget statement --month 2026-10              in October
  kubectl gpushare budget statement -n vision-train -o csv > november.csv
  kubectl gpushare budget statement --budget vision -o json | jq -r .total";

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The namespace; by default the kubeconfig's
    #[arg(short, long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Show everything that was charged to this budget instead of one namespace
    #[arg(long, value_name = "NAME", conflicts_with = "namespace")]
    budget: Option<String>,
    /// The month, such as 2026-11; by default the current one
    #[arg(long, value_name = "YYYY-MM")]
    month: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    #[command(flatten)]
    reach: Reach,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For spreadsheets; the last row is the total
    Csv,
    /// For programs, as the timekeeper gives it
    Json,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Statement {
    from: Option<String>,
    to: Option<String>,
    lines: Vec<Line>,
    total_seconds: i64,
    total: String,
}

#[derive(Debug, Deserialize)]
struct Line {
    namespace: String,
    pod: String,
    from: Option<String>,
    to: Option<String>,
    seconds: i64,
    rate: String,
    amount: String,
    /// Unknown for pods that ran before the timekeeper recorded it.
    #[serde(default)]
    cards: Vec<Card>,
}

#[derive(Debug, Deserialize)]
struct Card {
    id: String,
    model: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<String> {
    connection::wait_for(async {
        let timekeeper = arguments.reach.timekeeper().await?;
        let of = match (&arguments.budget, &arguments.namespace) {
            (Some(budget), _) => format!("budgets/{budget}"),
            (None, Some(namespace)) => format!("namespaces/{namespace}"),
            (None, None) => format!("namespaces/{}", timekeeper.namespace()),
        };
        let format = match arguments.output {
            Output::Csv => "csv",
            Output::Table | Output::Json => "json",
        };
        let mut path = format!("/v1/{of}/statement?format={format}");
        if let Some(month) = &arguments.month {
            let _ = write!(path, "&month={month}");
        }
        let stated = timekeeper.get(&path).await?;
        arguments.print(&stated)
    })
}

impl Arguments {
    fn print(&self, stated: &str) -> Result<String> {
        let unreadable = "the timekeeper's answer cannot be read; is it of another version?";
        match self.output {
            Output::Csv => Ok(stated.trim_end().to_owned()),
            Output::Json => {
                let value: Value = serde_json::from_str(stated).context(unreadable)?;
                Ok(serde_json::to_string_pretty(&value)?)
            }
            Output::Table => {
                let statement: Statement = serde_json::from_str(stated).context(unreadable)?;
                Ok(table(&statement))
            }
        }
    }
}

fn table(statement: &Statement) -> String {
    let time = |time: &Option<String>| time.clone().unwrap_or_default();
    let mut rows = "NAMESPACE\tPOD\tFROM\tTO\tSECONDS\tRATE\tGPU-SECONDS\tCARDS\n".to_owned();
    for line in &statement.lines {
        let (from, to) = (time(&line.from), time(&line.to));
        let Line {
            namespace,
            pod,
            seconds,
            rate,
            amount,
            cards,
            ..
        } = line;
        let cards = cards
            .iter()
            .map(|Card { id, model }| format!("{id} ({model})"));
        let cards = cards.collect::<Vec<_>>().join(", ");
        let _ = writeln!(
            rows,
            "{namespace}\t{pod}\t{from}\t{to}\t{seconds}\t{rate}\t{amount}\t{cards}"
        );
    }
    let (from, to) = (time(&statement.from), time(&statement.to));
    let _ = writeln!(
        rows,
        "TOTAL\t\t{from}\t{to}\t{}\t\t{}",
        statement.total_seconds, statement.total
    );
    align(&rows).trim_end().to_owned()
}
