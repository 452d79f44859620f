//! The preemptor's marks: the claim on room for it, and the node that it is nominated for.
//!
//! Both are written in one update of the pod's status, which may change annotations too: the scheduler
//! sees them together, and tries the pod again because an annotation has changed.

use std::time::Duration;

use gpushare_core::{NodeName, PodUid, names};
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use thiserror::Error;

use crate::slim;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// The claim, and the nomination for its node.
    Claim { record: &'a str, node: &'a NodeName },
    /// Nothing is claimed any more.
    Nothing,
    /// The room is there: the pod is nominated and tried again.
    Wake { node: &'a NodeName, now: Timestamp },
    /// The nomination, which the scheduler takes back whenever it tries the pod in vain.
    Nominate(&'a NodeName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    Yes,
    /// It does not exist any more; another pod may have its name.
    Gone,
}

#[derive(Debug, Error)]
pub enum MarkError {
    #[error("cannot change the status of pod {namespace}/{name}: {source}")]
    Api {
        namespace: String,
        name: String,
        source: kube::Error,
    },
    #[error("cannot change the status of pod {namespace}/{name}: no answer within {TIMEOUT:?}")]
    Timeout { namespace: String, name: String },
}

impl Mark<'_> {
    fn patch(&self, uid: &PodUid) -> Value {
        let (annotations, node) = match self {
            Self::Claim { record, node } => (json!({names::PREEMPTION: record}), Some(node)),
            Self::Nothing => (json!({names::PREEMPTION: null}), None),
            Self::Wake { node, now } => (json!({names::WOKEN: now.to_string()}), Some(node)),
            Self::Nominate(node) => (json!({}), Some(node)),
        };
        // A uid cannot be changed, so a patch that names another one is refused.
        json!({
            "metadata": {"uid": uid, "annotations": annotations},
            "status": {"nominatedNodeName": node},
        })
    }
}

/// Marks the pod with this uid, and no other of the same name.
pub async fn mark(
    client: &Client,
    namespace: &str,
    name: &str,
    uid: &PodUid,
    mark: Mark<'_>,
) -> Result<Marked, MarkError> {
    let api: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
    let (patch, params) = (Patch::Merge(mark.patch(uid)), PatchParams::default());
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    let answer = tokio::time::timeout(TIMEOUT, api.patch_status(&name, &params, &patch)).await;
    match answer {
        Ok(Ok(_pod)) => Ok(Marked::Yes),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 422) => Ok(Marked::Gone),
        Ok(Err(source)) => Err(MarkError::Api {
            namespace,
            name,
            source,
        }),
        Err(_elapsed) => Err(MarkError::Timeout { namespace, name }),
    }
}
