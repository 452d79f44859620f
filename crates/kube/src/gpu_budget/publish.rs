//! Writing what the timekeeper reports about a budget: its status, and Events for its administrators.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::{GpuBudget, GpuBudgetStatus};
use crate::call::{CallError, call};
use crate::notice::{self, Severity};

const TIMEOUT: Duration = Duration::from_secs(3);
const CONTROLLER: &str = "gpushare-timekeeper";
/// Where Kubernetes keeps the Events of objects that are in no namespace.
const NAMESPACE: &str = "default";

/// Replaces the status of this budget, and of no later one of the same name.
pub async fn status(
    client: &Client,
    budget: &GpuBudget,
    status: &GpuBudgetStatus,
) -> Result<(), CallError> {
    let api: Api<GpuBudget> = Api::all(client.clone());
    let patch = json!({"metadata": {"uid": budget.uid()}, "status": complete(status)});
    let (patch, params) = (Patch::Merge(patch), PatchParams::default());
    let name = budget.name_any();
    let what = || format!("write the status of budget {name}");
    let patched = call(TIMEOUT, what, api.patch_status(&name, &params, &patch)).await;
    patched.map(|_budget| ())
}

/// A merge patch keeps fields that it does not name, so every field without a value is written as null.
fn complete(status: &GpuBudgetStatus) -> Value {
    let mut all = json!({
        "observedGeneration": null, "periodStart": null, "periodEnd": null, "used": null, "held": null,
        "remaining": null, "usedSeconds": null, "heldSeconds": null, "remainingSeconds": null,
        "exhaustsAt": null, "conditions": null,
    });
    if let (Some(all), Ok(Value::Object(set))) = (all.as_object_mut(), serde_json::to_value(status))
    {
        all.extend(set);
    }
    all
}

/// Something that the administrators of a budget should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    pub reason: &'static str,
    pub severity: Severity,
    pub message: String,
}

/// Posts an Event on the budget, or updates the existing one. `times` is how often this was reported.
pub async fn news(
    client: &Client,
    budget: &GpuBudget,
    news: &News,
    times: u32,
    now: Timestamp,
) -> Result<(), CallError> {
    let about = ObjectReference {
        api_version: Some(GpuBudget::api_version(&()).into_owned()),
        kind: Some(GpuBudget::kind(&()).into_owned()),
        name: Some(budget.name_any()),
        uid: budget.uid(),
        ..ObjectReference::default()
    };
    let event = notice::event(
        CONTROLLER,
        NAMESPACE,
        about,
        (news.reason, news.severity, &news.message),
        now,
    );
    let written = notice::write(client, &event, times, now);
    let what = || format!("post an event on budget {}", budget.name_any());
    call(TIMEOUT, what, written).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_of_a_status_is_written_set_or_not() {
        let nothing = complete(&GpuBudgetStatus::default());
        let fields = nothing.as_object().unwrap();
        let schema = serde_json::to_value(schemars::schema_for!(GpuBudgetStatus)).unwrap();
        let known = schema["properties"].as_object().unwrap();
        assert!(known.keys().eq(fields.keys()), "{known:?} {fields:?}");
        let some = complete(&GpuBudgetStatus {
            used: Some("1h".to_owned()),
            exhausted: true,
            ..GpuBudgetStatus::default()
        });
        assert_eq!(some["used"], "1h");
        assert_eq!(some["exhausted"], true);
        assert_eq!(some["exhaustsAt"], Value::Null);
    }
}
