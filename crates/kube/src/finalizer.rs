//! The finalizer that keeps a pod's object until its last second is charged: put on and taken off, and nothing else of
//! the pod with it.

use std::time::Duration;

use gpushare_core::{PodUid, names};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::PodRef;
use crate::call::{CallError, call_or};

const TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finalizer {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Yes,
    /// It does not exist any more, and another pod may have its name; or its deletion has begun, after which nothing
    /// can be put on; or it has another version than the one on which it was decided to take it off.
    Gone,
}

impl Finalizer {
    /// In a strategic merge others' finalizers stay, whoever changes them meanwhile.
    fn patch(self, uid: &PodUid, version: &str) -> Value {
        // A uid cannot be changed, so a patch that names another one is refused as invalid.
        match self {
            Self::On => json!({"metadata": {"uid": uid, "finalizers": [names::METERING]}}),
            // One that arrives late must not take off what was put on again since.
            Self::Off => json!({"metadata": {
                "uid": uid,
                "resourceVersion": version,
                "$deleteFromPrimitiveList/finalizers": [names::METERING],
            }}),
        }
    }
}

/// Changes the pod with this uid, and no other of the same name. Doing it twice does no harm.
pub async fn change(
    client: &Client,
    pod: &PodRef,
    version: &str,
    to: Finalizer,
) -> Result<Changed, CallError> {
    let patch = Patch::Strategic(to.patch(&pod.uid, version));
    let (api, params) = (pod.api(client), PatchParams::default());
    let request = async {
        api.patch(&pod.name, &params, &patch)
            .await
            .map(|_pod| Changed::Yes)
    };
    let what = || format!("change the finalizers of pod {pod}");
    let gone = |code| matches!(code, 404 | 409 | 422).then_some(Changed::Gone);
    call_or(TIMEOUT, what, request, |status| gone(status.code)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Being too late must not keep a pod from being charged, nor let it go uncharged.
    #[test]
    fn only_taking_it_off_depends_on_the_version_that_was_looked_at() {
        let uid = "u".into();
        let off = Finalizer::Off.patch(&uid, "7");
        assert_eq!(off["metadata"]["resourceVersion"], "7");
        let on = Finalizer::On.patch(&uid, "7");
        assert_eq!(on["metadata"]["resourceVersion"], Value::Null);
    }
}
