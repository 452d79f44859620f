//! Budgets: what was used in the period, what is left, and when it will be exhausted.

use std::collections::BTreeMap;

use gpushare_kube::gpu_budget::select::{Choice, choose};
use gpushare_kube::gpu_budget::{AmountText, GpuBudget, PeriodKind, WhenExhausted, condition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::model::Model;

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    pub(crate) name: String,
    parent: Option<String>,
    /// The namespaces that pay from it.
    namespaces: Vec<String>,
    amount: String,
    period: PeriodKind,
    when_exhausted: WhenExhausted,
    /// What the timekeeper reports; `None` until it has processed the budget.
    status: Option<Status>,
    /// What is wrong with the budget.
    problem: Option<String>,
    /// Times in seconds since 1970, with the GPU-seconds that remained then.
    pub(crate) points: Vec<(i64, i64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    used: String,
    held: String,
    remaining: String,
    used_seconds: i64,
    held_seconds: i64,
    remaining_seconds: i64,
    exhausted: bool,
    /// This and the next two in seconds since 1970.
    start: Option<i64>,
    end: Option<i64>,
    exhausts: Option<i64>,
}

pub(crate) fn rows(model: &Model) -> BTreeMap<String, Row> {
    let mut payers: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (namespace, labels) in model.namespaces() {
        if let Choice::Budget(budget) = choose(model.budgets().values(), namespace, labels)
            && let Some(name) = &budget.metadata.name
        {
            payers.entry(name).or_default().push(namespace.clone());
        }
    }
    let budgets = model.budgets().iter();
    budgets
        .map(|(name, budget)| {
            let namespaces = payers.remove(name.as_str()).unwrap_or_default();
            (name.clone(), row(name, budget, namespaces))
        })
        .collect()
}

/// GPU-seconds that remain, if the timekeeper has reported them.
pub(crate) fn remaining(budget: &GpuBudget) -> Option<i64> {
    budget.status.as_ref()?.remaining_seconds
}

fn row(name: &str, budget: &GpuBudget, namespaces: Vec<String>) -> Row {
    let spec = &budget.spec;
    Row {
        name: name.to_owned(),
        parent: spec.parent.clone(),
        namespaces,
        amount: match &spec.amount {
            AmountText::Seconds(seconds) => format!("{seconds}s"),
            AmountText::Text(text) => text.clone(),
        },
        period: spec.period.kind,
        when_exhausted: spec.when_exhausted,
        status: status(budget),
        problem: problem(budget),
        points: Vec::new(),
    }
}

fn status(budget: &GpuBudget) -> Option<Status> {
    let status = budget.status.as_ref()?;
    let seconds = |time: &Option<Time>| time.as_ref().map(|time| time.0.as_second());
    Some(Status {
        used: status.used.clone().unwrap_or_default(),
        held: status.held.clone().unwrap_or_default(),
        remaining: status.remaining.clone().unwrap_or_default(),
        used_seconds: status.used_seconds?,
        held_seconds: status.held_seconds.unwrap_or(0),
        remaining_seconds: status.remaining_seconds?,
        exhausted: status.exhausted,
        start: seconds(&status.period_start),
        end: seconds(&status.period_end),
        exhausts: seconds(&status.exhausts_at),
    })
}

fn problem(budget: &GpuBudget) -> Option<String> {
    let mut conditions = budget.status.as_ref()?.conditions.iter();
    let not_ready =
        conditions.find(|found| found.type_ == condition::READY && found.status == "False")?;
    Some(not_ready.message.clone())
}
