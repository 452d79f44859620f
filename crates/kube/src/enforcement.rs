//! Enforcement of budgets on a pod: the marks that are recorded on it, and how they are changed.
//!
//! Enforcement keeps no state except what is recorded on the pods. Only the timekeeper can write the marks
//! (`deploy/admission.yaml`). Which marks a pod gets is decided elsewhere.

use std::time::Duration;

use gpushare_core::dialect::Dialects;
use gpushare_core::{PodUid, names};
use jiff::Timestamp;
use kube::Client;
use kube::api::Patch;
use kube::core::Status;
use serde_json::{Value, json};

use crate::PodRef;
use crate::call::CallError;
use crate::convert::{PodFacts, asked_by_limits};
use crate::{metering, slim};

pub use crate::pod_ref::PatchOutcome;

const TIMEOUT: Duration = Duration::from_secs(5);
const YES: &str = "true";

/// A pod that asks for our devices and has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub id: PodRef,
    /// Changes with every change of the pod.
    pub version: String,
    /// In seconds since 1970.
    pub created: i64,
    /// How many cards its containers ask for in total, which is the most that it can hold.
    pub cards: u32,
    pub stage: Stage,
    /// Its deletion has begun.
    pub ending: bool,
    /// It was created over budget, so it has the low priority class, which cannot be changed.
    pub low_class: bool,
    pub marks: Marks,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It has its budget's scheduling gate.
    Waits,
    Pending,
    /// On a node.
    Placed,
}

/// What is recorded on a pod about its budget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The budget that has nothing left.
    pub over: Option<String>,
    /// The pod was created over budget, and is within budget again.
    pub restored: bool,
    pub evict_at: Option<Timestamp>,
}

impl Subject {
    /// `None` for a pod on which no budget is enforced.
    pub fn of(pod: &metering::Pod, facts: &PodFacts, dialects: &Dialects) -> Option<Self> {
        if facts.ended {
            return None;
        }
        // A tenant can write an invalid choice of cards on a waiting pod, and remove it later. In between, the pod
        // must not be forgotten, or the budget would admit other pods in its place.
        let ask = match &facts.ask {
            Ok(ask) => ask.clone()?,
            Err(_) => asked_by_limits(&pod.spec, dialects).ok()??,
        };
        let cards = ask.containers.iter().map(|container| container.cards);
        Some(Self {
            id: facts.reference(),
            version: pod.metadata.resource_version.clone().unwrap_or_default(),
            created: facts.created,
            cards: cards.fold(0, u32::saturating_add),
            stage: Stage::of(&pod.spec),
            ending: facts.deleting,
            low_class: pod.spec.priority_class_name.as_deref() == Some(names::OVER_BUDGET),
            marks: Marks::of(pod),
        })
    }
}

impl Stage {
    fn of(spec: &slim::PodSpec) -> Self {
        let mut gates = spec.scheduling_gates.iter();
        if gates.any(|gate| gate.name == names::BUDGET_GATE) {
            return Self::Waits;
        }
        match spec.node_name.as_deref() {
            None | Some("") => Self::Pending,
            Some(_) => Self::Placed,
        }
    }
}

impl Marks {
    fn of(pod: &metering::Pod) -> Self {
        let annotations = pod.metadata.annotations.as_ref();
        let text = |name: &str| annotations.and_then(|all| all.get(name));
        Self {
            over: text(names::OVER_BUDGET_MARK).cloned(),
            restored: text(names::RESTORED_MARK).is_some(),
            evict_at: text(names::EVICT_AT).and_then(|time| time.parse().ok()),
        }
    }

    fn patch(&self, uid: &PodUid) -> Value {
        let evict_at = self.evict_at.map(|time| time.to_string());
        let restored = self.restored.then_some(YES);
        // A uid cannot be changed, so a patch that names another one is refused.
        json!({"metadata": {"uid": uid, "annotations": {
            names::OVER_BUDGET_MARK: self.over,
            names::RESTORED_MARK: restored,
            names::EVICT_AT: evict_at,
        }}})
    }
}

/// Replaces the marks on the pod with exactly these.
pub async fn mark(client: &Client, pod: &PodRef, marks: &Marks) -> Result<PatchOutcome, CallError> {
    let patch = Patch::Merge(marks.patch(&pod.uid));
    change(client, pod, "mark", &patch).await
}

/// Removes the budget's gate, and no other.
pub async fn open_gate(client: &Client, pod: &PodRef) -> Result<PatchOutcome, CallError> {
    let gate = json!({"name": names::BUDGET_GATE, "$patch": "delete"});
    let patch = Patch::Strategic(json!({
        "metadata": {"uid": pod.uid},
        "spec": {"schedulingGates": [gate]},
    }));
    change(client, pod, "open the gate of", &patch).await
}

async fn change(
    client: &Client,
    pod: &PodRef,
    doing: &str,
    patch: &Patch<Value>,
) -> Result<PatchOutcome, CallError> {
    let gone = |status: &Status| is_gone(status.code, &status.message);
    pod.patch(client, patch, TIMEOUT, doing, gone).await
}

/// Whether there is no pod of this name, or one with another uid.
pub(crate) fn is_gone(code: u16, message: &str) -> bool {
    let other = message.contains("metadata.uid") || message.contains("UID in precondition");
    code == 404 || (matches!(code, 409 | 422) && other)
}

#[cfg(test)]
mod tests {
    use gpushare_core::gpu::{self, AliyunUnit};

    use super::*;

    fn subject(pod: Value) -> Option<Subject> {
        let pod: metering::Pod = serde_json::from_value(pod).unwrap();
        let dialects = gpu::dialects(AliyunUnit::GiB);
        Subject::of(&pod, &pod.facts(&dialects), &dialects)
    }

    fn containers() -> Value {
        json!([{"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": "4"}}}])
    }

    #[test]
    fn a_pod_shows_what_stands_on_it_of_its_budget() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "team", "uid": "u", "annotations": {
                "gpushare.io/over-budget": "vision",
                "gpushare.io/evict-at": "2026-11-20T10:00:00Z"}},
            "spec": {"nodeName": "n", "priorityClassName": "gpushare-over-budget",
                "schedulingGates": [{"name": "other"}], "containers": containers()},
        });
        let seen = subject(pod).unwrap();
        assert_eq!((seen.cards, seen.low_class), (1, true));
        assert_eq!(seen.stage, Stage::Placed, "the gate is another's");
        assert_eq!(seen.marks.over.as_deref(), Some("vision"));
        let time = seen.marks.evict_at.unwrap();
        assert_eq!(time.to_string(), "2026-11-20T10:00:00Z");
    }

    #[test]
    fn pods_without_devices_and_those_that_have_ended_are_not_concerned() {
        let plain = json!({"spec": {"containers": [{"name": "c"}]}});
        assert_eq!(subject(plain), None);
        let ended = json!({"spec": {"containers": containers()}, "status": {"phase": "Failed"}});
        assert_eq!(subject(ended), None);
    }

    #[test]
    fn a_pod_that_waits_counts_whatever_its_tenant_writes_on_it() {
        let mut pod = json!({
            "metadata": {"name": "p", "namespace": "team", "uid": "u"},
            "spec": {"containers": containers()},
        });
        let before = subject(pod.clone());
        assert!(before.is_some());
        pod["metadata"]["annotations"] = json!({"gpushare.io/policy": "x"});
        assert_eq!(subject(pod), before);

        let incomplete =
            json!([{"name": "c", "resources": {"limits": {"gpushare.io/gpu-mem": "4"}}}]);
        let never = json!({"spec": {"containers": incomplete}});
        assert_eq!(subject(never), None, "its limits cannot be mended");
    }

    #[test]
    fn marks_that_are_not_wanted_are_taken_off() {
        let patch = Marks::default().patch(&"u".into());
        let annotations = patch["metadata"]["annotations"].as_object().unwrap();
        assert_eq!(annotations.len(), 3);
        assert!(annotations.values().all(Value::is_null), "{annotations:?}");
    }

    #[test]
    fn a_pod_of_another_uid_is_gone() {
        assert!(is_gone(404, ""));
        assert!(is_gone(
            422,
            "metadata.uid: Invalid value: field is immutable"
        ));
        assert!(is_gone(409, "Precondition failed: UID in precondition: a"));
        assert!(!is_gone(409, "the object has been modified"));
        assert!(!is_gone(403, "metadata.uid"));
    }
}
