//! Waking a pending pod: a change of its annotation, which makes the scheduler try the pod again.

use std::time::Duration;

use gpushare_core::names;
use jiff::Timestamp;
use kube::Client;
use kube::api::Patch;
use kube::core::Status;
use serde_json::json;

use crate::PodRef;
use crate::call::CallError;

pub use crate::pod_ref::PatchOutcome;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Wakes the pod with this uid, and no other of the same name.
pub async fn wake(
    client: &Client,
    pod: &PodRef,
    now: Timestamp,
) -> Result<PatchOutcome, CallError> {
    let patch = Patch::Merge(json!({
        "metadata": {"uid": pod.uid, "annotations": {names::WOKEN: now.to_string()}},
    }));
    let gone = |status: &Status| matches!(status.code, 404 | 422);
    pod.patch(client, &patch, TIMEOUT, "wake", gone).await
}
