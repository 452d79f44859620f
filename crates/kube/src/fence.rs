//! Fencing a pod: a write that makes all earlier requests about the pod void.
//!
//! The network can delay a request for any length of time, and a deadline of the API server begins only when the
//! request arrives there. So no wait is long enough to rule out a lost request. Instead, requests name the version of
//! the pod that they were decided on. The API server refuses them once the pod has another version, and the fence
//! gives it another version.
//!
//! The fence writes a condition, because kube-scheduler does not try a pod again when its status changes. A fence
//! that arrives late does no harm: at worst it makes another request void, whose sender then reads the pod and sends
//! it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpushare_core::dialect::Dialects;
use gpushare_core::names;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use serde_json::{Value, json};

use crate::PodRef;
use crate::call::{CallError, call_or};
use crate::convert::PodFacts;
use crate::enforcement::is_gone;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the API server refuses such a write on this pod, however often it is repeated.
pub fn is_final(error: &CallError) -> bool {
    error.status().is_some_and(cannot_be_changed)
}

/// Makes all earlier requests about the pod with this uid void, and returns the pod as it is after that; `None` if it
/// is gone.
pub async fn fence(
    client: &Client,
    dialects: &Dialects,
    pod: &PodRef,
) -> Result<Option<PodFacts>, CallError> {
    // A uid cannot be changed, so a patch that names another one is refused.
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": pod.uid},
        "status": {"conditions": [condition(Timestamp::now())]},
    }));
    let (api, params) = (pod.api(client), PatchParams::default());
    let request = async { api.patch_status(&pod.name, &params, &patch).await.map(Some) };
    let what = || format!("change the status of pod {pod}");
    let gone = |status: &Status| is_gone(status.code, &status.message).then_some(None);
    let fenced = call_or(TIMEOUT, what, request, gone).await?;
    Ok(fenced.map(|pod| PodFacts::new(&pod, dialects)))
}

/// The condition to write. No two are equal, because a write that changes nothing does not change the version.
pub(crate) fn condition(now: Timestamp) -> Value {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let message = format!("what was sent before {now} and not answered is void ({number})");
    json!({"type": names::FENCED, "status": "True", "reason": "Unanswered", "message": message})
}

/// Whether the pod's object is too large, or is not valid by the API server's current rules. A pod that its owner has
/// made so must not block all other pods.
fn cannot_be_changed(status: &Status) -> bool {
    let too_large = ["request is too large", "larger than max"];
    matches!(status.code, 400 | 413 | 422)
        || too_large.iter().any(|text| status.message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_fences_are_equal() {
        let now = Timestamp::UNIX_EPOCH;
        assert_ne!(condition(now), condition(now));
    }

    #[test]
    fn a_pod_that_cannot_be_changed_is_told_from_a_server_that_cannot_be_reached() {
        let check = |code: u16, message: &str, expected: bool| {
            let source = Status {
                code,
                message: message.to_owned(),
                ..Status::default()
            };
            assert_eq!(cannot_be_changed(&source), expected, "{message}");
        };
        check(500, "etcdserver: request is too large", true);
        check(422, "Pod \"p\" is invalid: spec: Invalid value", true);
        check(500, "etcdserver: leader changed", false);
        check(429, "too many requests", false);
        check(403, "pods \"p\" is forbidden", false);
    }
}
