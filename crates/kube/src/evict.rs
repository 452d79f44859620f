//! Eviction: asking the API server to end a pod, which disruption budgets can refuse.

use std::time::Duration;

use kube::Client;
use kube::api::PostParams;
use kube::core::Status;
use serde_json::json;

use crate::PodRef;
use crate::call::{CallError, call_or};

const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionOutcome {
    /// It is ending now.
    Ending,
    /// It does not exist any more; another pod may have its name.
    Gone,
    /// A disruption budget protects it.
    Protected(String),
    /// It has another version by now. Nothing has happened.
    Changed,
}

/// Whether the request may evict the pod despite the error, now or later.
pub fn may_take_effect(error: &CallError) -> bool {
    let refused = error.status().map(|status| status.code);
    refused.is_none_or(|code| code == 408 || code >= 500)
}

/// Evicts the pod with this uid, and no other of the same name, if it has this version; `None` means any version. A
/// repeated request does no harm.
pub async fn evict(
    client: &Client,
    pod: &PodRef,
    version: Option<&str>,
) -> Result<EvictionOutcome, CallError> {
    let what = || format!("evict pod {pod}");
    call_or(TIMEOUT, what, post(client, pod, version), judge).await
}

async fn post(
    client: &Client,
    pod: &PodRef,
    version: Option<&str>,
) -> Result<EvictionOutcome, kube::Error> {
    let PodRef {
        uid,
        namespace,
        name,
    } = pod;
    let preconditions = match version {
        Some(version) => json!({"uid": uid, "resourceVersion": version}),
        None => json!({"uid": uid}),
    };
    let body = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"preconditions": preconditions},
    });
    let body = serde_json::to_vec(&body).map_err(kube::Error::SerdeError)?;
    let path = format!("/api/v1/namespaces/{namespace}/pods");
    let request = kube::core::Request::new(path)
        .create_subresource("eviction", name, &PostParams::default(), body)
        .map_err(kube::Error::BuildRequest)?;
    let answer = client.request::<Status>(request).await;
    answer.map(|_status| EvictionOutcome::Ending)
}

/// What a refusal means; `None` if it says nothing about the pod.
fn judge(status: &Status) -> Option<EvictionOutcome> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let budget = causes
        .into_iter()
        .find(|cause| cause.reason == "DisruptionBudget");
    match status.code {
        404 => Some(EvictionOutcome::Gone),
        // The message is "UID in precondition" or "the UID in the precondition", depending on the part of the API
        // server.
        409 if status.message.contains("UID in ") => Some(EvictionOutcome::Gone),
        409 if status.message.contains("ResourceVersion in ") => Some(EvictionOutcome::Changed),
        429 => budget.map(|cause| EvictionOutcome::Protected(cause.message.clone())),
        // The eviction API cannot count against two budgets at once and says so with this code.
        500 if status.message.contains("more than one PodDisruptionBudget") => {
            Some(EvictionOutcome::Protected(status.message.clone()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(status: &serde_json::Value, expected: Option<&EvictionOutcome>) {
        let parsed: Status = serde_json::from_value(status.clone()).unwrap();
        assert_eq!(judge(&parsed).as_ref(), expected, "{status}");
    }

    #[test]
    fn a_budgets_refusal_is_told_from_a_busy_server() {
        let causes = json!([{"reason": "DisruptionBudget", "message": "needs 1", "field": ""}]);
        let refused = json!({"status": "Failure", "code": 429, "reason": "TooManyRequests",
            "message": "Cannot evict pod", "details": {"causes": causes}});
        check(
            &refused,
            Some(&EvictionOutcome::Protected("needs 1".to_owned())),
        );
        let busy = json!({"status": "Failure", "code": 429, "message": "too many requests"});
        check(&busy, None);
        let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource \
                   does not support.";
        let two_budgets = json!({"status": "Failure", "code": 500, "message": two});
        check(
            &two_budgets,
            Some(&EvictionOutcome::Protected(two.to_owned())),
        );
    }

    #[test]
    fn a_pod_that_is_gone_or_was_replaced_is_gone() {
        check(
            &json!({"status": "Failure", "code": 404}),
            Some(&EvictionOutcome::Gone),
        );
        let replaced = "Precondition failed: UID in precondition: a, UID in object meta: b";
        let replaced = json!({"status": "Failure", "code": 409, "message": replaced});
        check(&replaced, Some(&EvictionOutcome::Gone));
        let replaced = "the UID in the precondition (a) does not match the UID in record (b)";
        let replaced = json!({"status": "Failure", "code": 409, "message": replaced});
        check(&replaced, Some(&EvictionOutcome::Gone));
    }

    #[test]
    fn a_pod_of_another_version_is_told_from_other_conflicts() {
        for changed in [
            "Precondition failed: ResourceVersion in precondition: 1, ResourceVersion in object meta: 2",
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (2)",
        ] {
            let changed = json!({"status": "Failure", "code": 409, "message": changed});
            check(&changed, Some(&EvictionOutcome::Changed));
        }
        let other = json!({"status": "Failure", "code": 409, "message": "has been modified"});
        check(&other, None);
    }
}
