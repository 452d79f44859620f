//! The finalizer that keeps a pod's object until its last second is charged: adding and removing it, without changing
//! anything else in the pod.

use std::time::Duration;

use gpushare_core::{PodUid, names};
use kube::Client;
use kube::api::Patch;
use kube::core::Status;
use serde_json::{Value, json};

use crate::PodRef;
use crate::call::CallError;

pub use crate::pod_ref::PatchOutcome;

const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    On,
    Off,
}

impl Finalizer {
    /// A strategic merge keeps the finalizers of others, even if they change at the same time.
    fn patch(self, uid: &PodUid, version: &str) -> Value {
        match self {
            Self::On => json!({"metadata": {"uid": uid, "finalizers": [names::METERING]}}),
            // A removal that arrives late must not remove a finalizer that was added again since.
            Self::Off => json!({"metadata": {
                "uid": uid,
                "resourceVersion": version,
                "$deleteFromPrimitiveList/finalizers": [names::METERING],
            }}),
        }
    }
}

/// Changes the pod with this uid, and no other of the same name. A repeated change does no harm. The pod also counts
/// as gone if its deletion has begun, because then no finalizer can be added, or if a removal was decided on another
/// version of it.
pub async fn change(
    client: &Client,
    pod: &PodRef,
    version: &str,
    to: Finalizer,
) -> Result<PatchOutcome, CallError> {
    let patch = Patch::Strategic(to.patch(&pod.uid, version));
    let gone = |status: &Status| matches!(status.code, 404 | 409 | 422);
    let doing = "change the finalizers of";
    pod.patch(client, &patch, TIMEOUT, doing, gone).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the pod has changed meanwhile, adding must still succeed, so that the pod is charged, and removing must
    /// fail, so that nothing stays uncharged.
    #[test]
    fn only_taking_it_off_depends_on_the_version_that_was_looked_at() {
        let uid = "u".into();
        let off = Finalizer::Off.patch(&uid, "7");
        assert_eq!(off["metadata"]["resourceVersion"], "7");
        let on = Finalizer::On.patch(&uid, "7");
        assert_eq!(on["metadata"]["resourceVersion"], Value::Null);
    }
}
