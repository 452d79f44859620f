//! The preemptor's marks: the claim on room for it, and the node that it is nominated for.
//!
//! Both are written in one update of the pod's status, which may change annotations too: the scheduler
//! sees them together, and tries the pod again because an annotation has changed.
//!
//! A claim that arrives late would evict pods although no pod needs the room, and a late removal could remove a newer
//! claim. So both name the version of the pod. A removal always gives the pod another version, even if there is no
//! claim to remove.

use std::time::Duration;

use gpushare_core::{NodeName, PodUid, names};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Patch, PatchParams};
use kube::core::Status;
use serde_json::{Value, json};

use crate::PodRef;
use crate::call::{CallError, call_or};
use crate::fence;

const TIMEOUT: Duration = Duration::from_secs(5);

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark<'a> {
    /// Records the claim, and nominates the pod for its node.
    Claim { record: &'a str, node: &'a NodeName },
    /// Removes the claim and the nomination.
    Nothing,
    /// Nominates the pod and makes the scheduler try it again, because the room is free.
    Wake { node: &'a NodeName, now: Timestamp },
    /// Nominates the pod again, because the scheduler removes the nomination whenever it tries the pod in vain.
    Nominate(&'a NodeName),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkOutcome {
    Done,
    /// It has another version by now. Nothing has happened.
    Changed,
    /// It does not exist any more, and another pod may have its name; or it is bound.
    Gone,
}

impl Mark<'_> {
    /// Whether the write names the pod's version, because it would do harm if it took effect after something else was
    /// decided. The other marks only make the scheduler try the pod once more.
    pub fn names_version(&self) -> bool {
        matches!(self, Self::Claim { .. } | Self::Nothing)
    }

    fn patch(&self, uid: &PodUid, version: Option<&str>) -> Value {
        let (annotations, node) = match self {
            Self::Claim { record, node } => (json!({names::PREEMPTION: record}), Some(node)),
            Self::Nothing => (json!({names::PREEMPTION: null}), None),
            Self::Wake { node, now } => (json!({names::WOKEN: now.to_string()}), Some(node)),
            Self::Nominate(node) => (json!({}), Some(node)),
        };
        // A uid cannot be changed, so a patch that names another one is refused.
        let metadata = match version {
            Some(version) => {
                json!({"uid": uid, "resourceVersion": version, "annotations": annotations})
            }
            None => json!({"uid": uid, "annotations": annotations}),
        };
        let status = match self {
            Self::Nothing => {
                let condition = fence::condition(Timestamp::now());
                json!({"nominatedNodeName": node, "conditions": [condition]})
            }
            _ => json!({"nominatedNodeName": node}),
        };
        json!({"metadata": metadata, "status": status})
    }
}

/// Marks the pod with this uid, and no other of the same name, if it has this version; `None` means any version.
pub async fn mark(
    client: &Client,
    pod: &PodRef,
    version: Option<&str>,
    mark: Mark<'_>,
) -> Result<MarkOutcome, CallError> {
    let patch = Patch::Strategic(mark.patch(&pod.uid, version));
    let (api, params) = (pod.api(client), PatchParams::default());
    let request = async {
        let answer = api.patch_status(&pod.name, &params, &patch).await;
        answer.map(|_pod| MarkOutcome::Done)
    };
    let what = || format!("change the status of pod {pod}");
    call_or(TIMEOUT, what, request, |status| match status.code {
        _ if is_gone(status) => Some(MarkOutcome::Gone),
        409 => Some(MarkOutcome::Changed),
        _ => None,
    })
    .await
}

/// Whether there is no pod of this name, or it has another uid, or it is bound and so cannot be nominated. The fields
/// are compared because a patch can be invalid for other reasons too.
fn is_gone(status: &Status) -> bool {
    let invalid = |field: &str| status.code == 422 && status.message.contains(field);
    status.code == 404 || invalid("metadata.uid") || invalid("status.nominatedNodeName")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, message: &str, expected: bool) {
        let status = json!({"status": "Failure", "code": code, "message": message});
        let status: Status = serde_json::from_value(status).unwrap();
        assert_eq!(is_gone(&status), expected, "{message}");
    }

    #[test]
    fn taking_a_claim_off_changes_the_pod_also_if_there_is_none() {
        let uid = "u".into();
        let once = Mark::Nothing.patch(&uid, Some("7"));
        assert_eq!(once["metadata"]["resourceVersion"], "7");
        assert_ne!(once, Mark::Nothing.patch(&uid, Some("7")));
    }

    #[test]
    fn a_pod_that_is_gone_replaced_or_bound_is_told_from_one_that_cannot_be_changed() {
        check(404, "pods \"p\" not found", true);
        check(
            422,
            "Pod \"p\" is invalid: metadata.uid: Invalid value: \"u\": field is immutable",
            true,
        );
        check(
            422,
            "Pod \"p\" is invalid: status.nominatedNodeName: Forbidden: may not be set on pods that \
             are already bound to a node",
            true,
        );
        check(
            422,
            "Pod \"p\" is invalid: metadata.annotations: Too long",
            false,
        );
        check(403, "pods \"p\" is forbidden: metadata.uid", false);
    }
}
