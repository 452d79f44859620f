//! Waking a pending pod: a change of its annotation, upon which the scheduler tries it again.

use std::time::Duration;

use gpushare_core::names;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::PodRef;
use crate::call::{CallError, call_or};

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Yes,
    /// It does not exist any more; another pod may have its name.
    Gone,
}

/// Wakes the pod with this uid, and no other of the same name.
pub async fn wake(client: &Client, pod: &PodRef, now: Timestamp) -> Result<Woken, CallError> {
    // A uid cannot be changed, so a patch that names another one is refused as invalid.
    let patch = Patch::Merge(json!({
        "metadata": {"uid": pod.uid, "annotations": {names::WOKEN: now.to_string()}},
    }));
    let (api, params) = (pod.api(client), PatchParams::default());
    let request = async {
        api.patch(&pod.name, &params, &patch)
            .await
            .map(|_pod| Woken::Yes)
    };
    let what = || format!("wake pod {pod}");
    let gone = |code| matches!(code, 404 | 422).then_some(Woken::Gone);
    call_or(TIMEOUT, what, request, |status| gone(status.code)).await
}
