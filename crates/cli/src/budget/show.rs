//! `budget show`: prints the status of GpuBudgets.

use std::fmt::Write as _;

use anyhow::{Context, Result, bail};
use clap::Args;
use gpushare_kube::gpu_budget::select::{Choice, choose};
use gpushare_kube::gpu_budget::{
    AmountText, GpuBudget, GpuBudgetStatus, PeriodKind, WhenExhausted, condition,
};
use gpushare_kube::kinds::Namespace;
use gpushare_kube::labels::Labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, Client, ResourceExt};
use serde::Serialize;

use crate::connection::{self, BUDGETS, Connection, Only};
use crate::output::{Form, Output};
use crate::tabs::align;

const EXAMPLES: &str = "Examples:
  kubectl gpushare budget show                  the budget of the current namespace
  kubectl gpushare budget show -n vision-train  of another namespace
  kubectl gpushare budget show -A               all budgets
  kubectl gpushare budget show --budget vision -o json | jq -r '.budgets[0].remaining'";

const FORMS: [Form; 3] = [
    (Output::Text, "For people"),
    (
        Output::Json,
        "An object for programs, with the field `budgets`",
    ),
    (Output::Yaml, "The same as YAML"),
];

#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct Arguments {
    /// The namespace whose budget is shown; by default the kubeconfig's
    #[arg(value_name = "NAMESPACE", conflicts_with_all = ["budget", "all", "namespace"])]
    of: Option<String>,
    /// The same as NAMESPACE, by kubectl's flag
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["budget", "all"])]
    namespace: Option<String>,
    /// Show this budget instead of a namespace's
    #[arg(long, value_name = "NAME", conflicts_with = "all")]
    budget: Option<String>,
    /// All budgets
    #[arg(short = 'A', long, visible_alias = "all-namespaces")]
    all: bool,
    /// How to print
    #[arg(short, long, default_value = "text", value_parser = Output::parser(&FORMS))]
    output: Output,
    #[command(flatten)]
    connection: Connection,
}

/// The answer for programs.
#[derive(Debug, Serialize)]
struct Report {
    budgets: Vec<Shown>,
}

/// A budget and its status. What the timekeeper has not reported yet is null.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    parent: Option<String>,
    amount: String,
    period: String,
    when_exhausted: WhenExhausted,
    used: Option<String>,
    used_seconds: Option<i64>,
    held: Option<String>,
    held_seconds: Option<i64>,
    remaining: Option<String>,
    remaining_seconds: Option<i64>,
    exhausted: bool,
    exhausts_at: Option<String>,
    period_starts: Option<String>,
    period_ends: Option<String>,
    ready: Option<bool>,
    /// Why it is not ready.
    message: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Result<String> {
    connection::wait_for(async {
        let client = arguments.connection.client().await?;
        let mut budgets: Vec<GpuBudget> = Vec::new();
        let listed = connection::each(&client, BUDGETS, Only::Everything, |budget| {
            budgets.push(budget);
            Ok(())
        });
        listed.await.map_err(explained)?;
        let (chosen, namespace) = arguments.choose(&client, budgets).await?;
        let report = Report {
            budgets: chosen.iter().map(Shown::of).collect(),
        };
        arguments.print(&report, namespace.as_deref())
    })
}

/// If the server knows no budgets, the setup is incomplete; the user does not lack a right.
fn explained(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<kube::Error>() {
        Some(kube::Error::Api(status)) if status.code == 404 => anyhow::anyhow!(
            "this cluster knows no GpuBudget: apply gpushare's deploy/crd.yaml, or choose another cluster with --context"
        ),
        _ => error,
    }
}

impl Arguments {
    /// The budgets to show, and the namespace for which they were chosen.
    async fn choose(
        &self,
        client: &Client,
        budgets: Vec<GpuBudget>,
    ) -> Result<(Vec<GpuBudget>, Option<String>)> {
        if self.all {
            return Ok((budgets, None));
        }
        if let Some(name) = &self.budget {
            let found = budgets.into_iter().find(|one| one.name_any() == *name);
            let missing = || format!("there is no budget {name:?}; budget show -A lists all");
            return Ok((vec![found.with_context(missing)?], None));
        }
        let name = self.of.as_deref().or(self.namespace.as_deref());
        let name = name.unwrap_or(client.default_namespace()).to_owned();
        let api: Api<Namespace> = Api::all(client.clone());
        let namespace = api.get(&name).await.with_context(|| {
            format!("cannot read the namespace {name:?}; check its name, and that you may get namespaces")
        })?;
        match choose(&budgets, &name, &Labels::from(namespace.labels())) {
            Choice::Budget(budget) => Ok((vec![budget.clone()], Some(name))),
            Choice::Unbudgeted => Ok((Vec::new(), Some(name))),
            Choice::Ambiguous(several) => {
                let names: Vec<String> = several.iter().map(|one| one.name_any()).collect();
                bail!(
                    "the budgets {} select the namespace {name:?} equally specifically, so none pays for it; change one of them",
                    names.join(" and ")
                )
            }
        }
    }

    fn print(&self, report: &Report, namespace: Option<&str>) -> Result<String> {
        let text = |_| match (report.budgets.as_slice(), namespace) {
            ([], Some(name)) => {
                format!("no budget pays for the namespace {name}: its GPU time is not limited")
            }
            ([], None) => "no budgets".to_owned(),
            ([one], Some(name)) => details(one, Some(name)),
            ([one], None) if !self.all => details(one, None),
            (all, _) => table(all),
        };
        self.output.print(report, text)
    }
}

impl Shown {
    fn of(budget: &GpuBudget) -> Self {
        let nothing = GpuBudgetStatus::default();
        let status = budget.status.as_ref().unwrap_or(&nothing);
        let ready = status.conditions.iter();
        let ready = ready.rev().find(|one| one.type_ == condition::READY);
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.0.to_string());
        Self {
            name: budget.name_any(),
            parent: budget.spec.parent.clone(),
            amount: match &budget.spec.amount {
                AmountText::Seconds(seconds) => format!("{seconds}s"),
                AmountText::Text(text) => text.clone(),
            },
            period: period(budget),
            when_exhausted: budget.spec.when_exhausted,
            used: status.used.clone(),
            used_seconds: status.used_seconds,
            held: status.held.clone(),
            held_seconds: status.held_seconds,
            remaining: status.remaining.clone(),
            remaining_seconds: status.remaining_seconds,
            exhausted: status.exhausted,
            exhausts_at: time(&status.exhausts_at),
            period_starts: time(&status.period_start),
            period_ends: time(&status.period_end),
            ready: ready.map(|ready| ready.status == "True"),
            message: ready
                .filter(|ready| ready.status != "True")
                .map(|ready| ready.message.clone()),
        }
    }
}

fn period(budget: &GpuBudget) -> String {
    let period = &budget.spec.period;
    match (period.kind, &period.window) {
        (PeriodKind::Rolling, Some(window)) => format!("rolling {window}"),
        (PeriodKind::Rolling, None) => "rolling".to_owned(),
        (PeriodKind::Month, _) => format!("month, {}", period.time_zone),
        (PeriodKind::Week, _) => format!("week, {}", period.time_zone),
        (PeriodKind::Day, _) => format!("day, {}", period.time_zone),
    }
}

fn or_dash(text: Option<&String>) -> &str {
    text.map_or("-", String::as_str)
}

fn truth(known: Option<bool>) -> &'static str {
    match known {
        Some(true) => "yes",
        Some(false) => "no",
        None => "-",
    }
}

fn table(budgets: &[Shown]) -> String {
    let mut rows =
        "NAME\tAMOUNT\tPERIOD\tUSED\tHELD\tREMAINING\tEXHAUSTED\tEXHAUSTS\tRESETS\tREADY\n"
            .to_owned();
    for one in budgets {
        let _ = writeln!(
            rows,
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}",
            one.name,
            one.amount,
            one.period,
            or_dash(one.used.as_ref()),
            or_dash(one.held.as_ref()),
            or_dash(one.remaining.as_ref()),
            truth(Some(one.exhausted)),
            or_dash(one.exhausts_at.as_ref()),
            or_dash(one.period_ends.as_ref()),
            truth(one.ready),
        );
    }
    align(&rows).trim_end().to_owned()
}

fn details(one: &Shown, namespace: Option<&str>) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{name}\t{value}");
    };
    if let Some(namespace) = namespace {
        line("Namespace:", namespace);
    }
    line("Budget:", &one.name);
    if let Some(parent) = &one.parent {
        line("Part of:", parent);
    }
    line("Amount:", &format!("{} ({})", one.amount, one.period));
    line("Used:", or_dash(one.used.as_ref()));
    line("Held:", or_dash(one.held.as_ref()));
    line("Remaining:", or_dash(one.remaining.as_ref()));
    let exhausted = match (one.exhausted, &one.exhausts_at) {
        (true, _) => format!("yes: {}", consequence(one.when_exhausted)),
        (false, Some(at)) => format!("at {at} if usage continues as now"),
        (false, None) => "not in sight".to_owned(),
    };
    line("Exhausted:", &exhausted);
    line("Resets:", or_dash(one.period_ends.as_ref()));
    line("Ready:", truth(one.ready));
    let mut text = align(&text).trim_end().to_owned();
    match (&one.message, one.ready) {
        (Some(message), _) => {
            let _ = write!(text, "\n{message}");
        }
        (None, None) => {
            text.push_str("\nno timekeeper has looked at this budget yet; check that one runs");
        }
        _ => {}
    }
    text
}

fn consequence(when: WhenExhausted) -> &'static str {
    match when {
        WhenExhausted::Demote => "pods run below everything else",
        WhenExhausted::ThrottleNew => "new pods wait",
        WhenExhausted::EvictWithGrace => "pods are evicted after their grace",
    }
}
