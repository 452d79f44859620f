//! Objects that `deploy/` creates: the definition of budgets, priority classes, admission policies.

use gpushare_core::names::{IN_BUDGET, OVER_BUDGET};
use kube::Client;
use serde_json::Value;

use super::check::{Check, Lookup, fail, get, ok, unknown, warn};

const BUDGETS: &str = "GpuBudget";
const CLASSES: &str = "priority classes";
const POLICIES: &str = "admission policies";

/// The admission policies of `deploy/admission.yaml`.
const EXPECTED: [&str; 10] = [
    "gpushare-allocation-records",
    "gpushare-extender-wakes",
    "gpushare-extender-claims",
    "gpushare-node-agents",
    "gpushare-priority-classes",
    "gpushare-metering",
    "gpushare-budget-marks",
    "gpushare-timekeeper-pods",
    "gpushare-past-the-scheduler",
    "gpushare-unbooked-cards",
];
const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";

pub(super) async fn look(client: &Client) -> Vec<Check> {
    vec![
        definition(client).await,
        classes(client).await,
        policies(client).await,
    ]
}

/// How many budgets there are; 0 if they cannot be read.
pub(super) async fn budgets(client: &Client) -> usize {
    match get(client, "/apis/gpushare.io/v1alpha1/gpubudgets").await {
        Lookup::Found(list) => list
            .get("items")
            .and_then(Value::as_array)
            .map_or(0, Vec::len),
        Lookup::Missing | Lookup::Unknown(_) => 0,
    }
}

async fn definition(client: &Client) -> Check {
    match get(client, "/apis/gpushare.io/v1alpha1/gpubudgets").await {
        Lookup::Found(_) => ok(BUDGETS, "the API server serves budgets"),
        Lookup::Missing => warn(
            BUDGETS,
            "the API server does not know budgets",
            "kubectl apply -f deploy/crd.yaml, if you want budgets",
        ),
        Lookup::Unknown(error) => unknown(BUDGETS, "budgets", &error),
    }
}

async fn classes(client: &Client) -> Check {
    let mut missing = Vec::new();
    let mut ranks = Vec::new();
    for name in [IN_BUDGET, OVER_BUDGET] {
        let path = format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}");
        match get(client, &path).await {
            Lookup::Found(class) => ranks.extend(class.get("value").and_then(Value::as_i64)),
            Lookup::Missing => missing.push(name),
            Lookup::Unknown(error) => return unknown(CLASSES, "priority classes", &error),
        }
    }
    let fix = "kubectl apply -f deploy/webhook.yaml";
    match (missing.as_slice(), ranks.as_slice()) {
        ([], [within, over]) if over >= within => {
            let message = format!(
                "{OVER_BUDGET} is not below {IN_BUDGET}: pods over their budget are not preempted first"
            );
            fail(CLASSES, message, fix)
        }
        ([], _) => ok(CLASSES, "both are there"),
        (missing, _) => warn(CLASSES, format!("missing: {}", missing.join(", ")), fix),
    }
}

async fn policies(client: &Client) -> Check {
    let mut names = Vec::new();
    for kind in [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
    ] {
        match get(client, &format!("{ADMISSION}/{kind}")).await {
            Lookup::Found(list) => names.push(named(&list)),
            Lookup::Missing => {
                let message = "the API server knows no ValidatingAdmissionPolicy";
                return fail(POLICIES, message, "upgrade Kubernetes to 1.30 or newer");
            }
            Lookup::Unknown(error) => return unknown(POLICIES, "admission policies", &error),
        }
    }
    let missing: Vec<&str> = EXPECTED
        .into_iter()
        .filter(|expected| {
            !names
                .iter()
                .all(|names| names.iter().any(|name| name == expected))
        })
        .collect();
    if missing.is_empty() {
        return ok(
            POLICIES,
            format!("all {} are there and bound", EXPECTED.len()),
        );
    }
    let message = format!("not there or not bound: {}", missing.join(", "));
    let fix = "kubectl apply -f deploy/admission.yaml: without them tenants can forge records and take what is not booked";
    fail(POLICIES, message, fix)
}

fn named(list: &Value) -> Vec<String> {
    let items = list
        .get("items")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let name = |item: &Value| Some(item.pointer("/metadata/name")?.as_str()?.to_owned());
    items.filter_map(name).collect()
}
