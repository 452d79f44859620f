//! Waking a pending pod: a change of its annotation, upon which the scheduler tries it again.

use std::time::Duration;

use gpushare_core::{PodUid, names};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use thiserror::Error;

use crate::slim;

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Yes,
    /// It does not exist any more; another pod may have its name.
    Gone,
}

#[derive(Debug, Error)]
pub enum WakeError {
    #[error("cannot wake pod {namespace}/{name}: {source}")]
    Api {
        namespace: String,
        name: String,
        source: kube::Error,
    },
    #[error("cannot wake pod {namespace}/{name}: no answer within {TIMEOUT:?}")]
    Timeout { namespace: String, name: String },
}

/// Wakes the pod with this uid, and no other of the same name.
pub async fn wake(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &PodUid,
    now: Timestamp,
) -> Result<Woken, WakeError> {
    let api: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
    // A uid cannot be changed, so a patch that names another one is refused as invalid.
    let patch = Patch::Merge(json!({
        "metadata": {"uid": uid, "annotations": {names::WOKEN: now.to_string()}},
    }));
    let params = PatchParams::default();
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match tokio::time::timeout(TIMEOUT, api.patch(&name, &params, &patch)).await {
        Ok(Ok(_pod)) => Ok(Woken::Yes),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 422) => Ok(Woken::Gone),
        Ok(Err(source)) => Err(WakeError::Api {
            namespace,
            name,
            source,
        }),
        Err(_elapsed) => Err(WakeError::Timeout { namespace, name }),
    }
}
