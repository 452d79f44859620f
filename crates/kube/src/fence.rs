//! Fencing a pod: a write that makes all earlier requests about the pod void.
//!
//! A request may be on its way for as long as the network likes, and a deadline of the API server begins only when it
//! arrives there. So nobody waits until a lost request is surely over. Requests name the version of the pod that they
//! were decided on; the API server refuses them once the pod has another one; and this write gives it another one.
//!
//! A condition is written because kube-scheduler does not try a pod again when its status changes. A fence that arrives late
//! does no harm: at worst it makes another request void, whose sender then reads the pod and sends it again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gpushare_core::dialect::Dialects;
use gpushare_core::{PodUid, names};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use kube::{Api, Client};
use serde_json::{Value, json};
use thiserror::Error;

use crate::convert::PodFacts;
use crate::enforcement::is_gone;
use crate::slim;

const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Debug, Error)]
pub enum FenceError {
    #[error("cannot change the status of pod {namespace}/{name}: {source}")]
    Api {
        namespace: String,
        name: String,
        source: kube::Error,
    },
    #[error("cannot change the status of pod {namespace}/{name}: no answer within {TIMEOUT:?}")]
    Timeout { namespace: String, name: String },
}

impl FenceError {
    /// Whether the API server cannot take such a write on this very pod, however often it is repeated.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Api {
                source: kube::Error::Api(status),
                ..
            } => cannot_be_changed(status),
            Self::Api { .. } | Self::Timeout { .. } => false,
        }
    }
}

/// Makes void what was sent about the pod with this uid, and answers how the pod is after that; nothing when it is gone.
pub async fn fence(
    client: &Client,
    dialects: &Dialects,
    namespace: &str,
    name: &str,
    uid: &PodUid,
) -> Result<Option<PodFacts>, FenceError> {
    let api: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
    // A uid cannot be changed, so a patch that names another one is refused.
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": uid},
        "status": {"conditions": [condition(Timestamp::now())]},
    }));
    let params = PatchParams::default();
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match tokio::time::timeout(TIMEOUT, api.patch_status(&name, &params, &patch)).await {
        Ok(Ok(pod)) => Ok(Some(PodFacts::new(&pod, dialects))),
        Ok(Err(kube::Error::Api(status))) if is_gone(status.code, &status.message) => Ok(None),
        Ok(Err(source)) => Err(FenceError::Api {
            namespace,
            name,
            source,
        }),
        Err(_elapsed) => Err(FenceError::Timeout { namespace, name }),
    }
}

/// What is written. No two are equal, because a write that changes nothing does not change the version.
pub(crate) fn condition(now: Timestamp) -> Value {
    static WRITTEN: AtomicU64 = AtomicU64::new(0);
    let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
    let message = format!("what was sent before {now} and not answered is void ({number})");
    json!({"type": names::FENCED, "status": "True", "reason": "Unanswered", "message": message})
}

/// Its object is too large or not valid by the rules of today. A pod that its owner has made like this must not keep
/// everybody waiting.
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
            let error = FenceError::Api {
                namespace: "team".to_owned(),
                name: "p".to_owned(),
                source: kube::Error::Api(Box::new(source)),
            };
            assert_eq!(error.is_final(), expected, "{message}");
        };
        check(500, "etcdserver: request is too large", true);
        check(422, "Pod \"p\" is invalid: spec: Invalid value", true);
        check(500, "etcdserver: leader changed", false);
        check(429, "too many requests", false);
        check(403, "pods \"p\" is forbidden", false);
    }
}
