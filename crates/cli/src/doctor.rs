//! `kubectl gpushare doctor`: checks an installation and says what to fix. It writes nothing unless asked to probe.
//!
//! Each module checks one part, and only that module decides what its findings mean.

mod answer;
mod check;
mod extender;
mod nodes;
mod objects;
mod probe;
mod server;
mod webhook;

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::CommandOutput;
use crate::cluster_args::Unit;
use crate::connection::{self, Connection};
use crate::output::{Form, Output};
use crate::tabs::align;
use check::{Check, Status};
use probe::Probe;

const EXAMPLES: &str = "Examples:
  kubectl gpushare doctor             every check, with what to do about those that fail
  kubectl gpushare doctor -o json | jq '.checks[] | select(.status != \"ok\")'
  kubectl gpushare doctor --probe IMAGE   also test whether a container that requests no card sees cards

Nothing is written: the webhook is tested by a dry run, with a pod that the API server checks and does not create.
With --probe, a pod runs briefly on every node with cards, once with each runtime that may give it cards, in the
namespace of gpushare's parts. It sets NVIDIA_VISIBLE_DEVICES=all, requests no card, and is deleted when it has ended.

Exit status: 0 when nothing failed, warnings included; 1 when a check failed or the cluster cannot be
reached; 2 when the command line is wrong.";

/// The namespace that `deploy/` uses.
pub(crate) const SYSTEM: &str = "gpushare-system";

const FORMS: [Form; 2] = [
    (Output::Text, "A line for each check"),
    (
        Output::Json,
        "An object for programs, with the field `checks`",
    ),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    /// The namespace of gpushare's parts
    #[arg(long, value_name = "NAME", default_value = SYSTEM)]
    system_namespace: String,
    #[command(flatten)]
    unit: Unit,
    /// Run a pod of this image, which needs a shell, on every node with cards, and see whether it gets cards without
    /// asking for any
    #[arg(long, value_name = "IMAGE")]
    probe: Option<String>,
    /// How long a probe may take to start and end, such as 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = connection::timeout)]
    probe_timeout: Duration,
    #[command(flatten)]
    connection: Connection,
}

pub(crate) fn run(arguments: &Arguments) -> Result<CommandOutput> {
    let checks = connection::wait_for(examine(arguments))?;
    let failed = checks.iter().any(|check| check.status == Status::Fail);
    let report = json!({"ok": !failed, "checks": checks});
    let text = arguments.output.print(&report, |_| table(&checks))?;
    Ok(CommandOutput { text, failed })
}

async fn examine(arguments: &Arguments) -> Result<Vec<Check>> {
    let client = arguments.connection.client().await?;
    let system = arguments.system_namespace.as_str();
    let dialects = arguments.unit.of_records();
    let now = Timestamp::now();
    let mut checks = server::look(&client).await?;
    let (found, nodes, pods) = nodes::look(&client, &dialects).await?;
    checks.extend(found);
    checks.extend(extender::look(&client, system, &pods, now).await);
    checks.extend(objects::look(&client).await);
    let budgets = objects::budgets(&client).await;
    checks.extend(webhook::look(&client, system, budgets, now).await);
    checks.extend(extender::timekeeper(&client, system, budgets, now).await);
    if let Some(image) = &arguments.probe {
        let probe = Probe {
            client,
            namespace: system.to_owned(),
            image: image.clone(),
            patience: arguments.probe_timeout,
        };
        checks.push(probe.look(&nodes.with_cards).await);
    }
    Ok(checks)
}

fn table(checks: &[Check]) -> String {
    let mut rows = String::new();
    for check in checks {
        let Check { name, message, .. } = check;
        let _ = writeln!(rows, "{}\t{name}\t{message}", check.status.word());
        if let Some(fix) = &check.fix {
            let _ = writeln!(rows, "\t\tfix: {fix}");
        }
    }
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let (ok, warn, fail) = (count(Status::Ok), count(Status::Warn), count(Status::Fail));
    format!("{}{ok} ok, {warn} to look at, {fail} failed", align(&rows))
}
