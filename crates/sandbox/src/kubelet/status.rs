//! A pod's status as its kubelet writes it: phase, conditions and one entry for each container.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::containers::{Role, Stage, TrackedContainer};

/// Whether the pod has ended.
pub(super) fn is_over(pod: &Pod) -> bool {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn phase(containers: &[TrackedContainer]) -> &'static str {
    let apps = || containers.iter().filter(|c| c.role == Role::App);
    let ended = |c: &TrackedContainer| matches!(c.stage, Stage::Ended { .. });
    let failed = |c: &TrackedContainer| matches!(c.stage, Stage::Ended { code, .. } if code != 0);
    if apps().all(ended) {
        return if containers.iter().any(failed) {
            "Failed"
        } else {
            "Succeeded"
        };
    }
    let begun = apps().any(|c| !matches!(c.stage, Stage::Waiting { .. }));
    if begun { "Running" } else { "Pending" }
}

/// The whole status, to be merged with what others have written there.
pub(super) fn write(
    containers: &[TrackedContainer],
    since: Timestamp,
    host: &str,
    address: Option<&str>,
) -> Value {
    let (init, apps): (Vec<&TrackedContainer>, Vec<&TrackedContainer>) =
        containers.iter().partition(|c| c.role != Role::App);
    let running = |c: &TrackedContainer| matches!(c.stage, Stage::Running { .. });
    let initialized = init.iter().all(|c| match c.role {
        Role::Init => matches!(c.stage, Stage::Ended { code: 0, .. }),
        _ => !matches!(c.stage, Stage::Waiting { .. }),
    });
    let phase = phase(containers);
    let ready = apps.iter().all(|c| running(c));
    let now = time(Timestamp::now());
    let condition = |kind: &str, holds: bool| {
        let mut condition = json!({
            "type": kind,
            "status": if holds { "True" } else { "False" },
            "lastTransitionTime": now,
            "reason": null,
        });
        if let (false, Some(map)) = (holds, condition.as_object_mut()) {
            let reason = if phase == "Succeeded" {
                "PodCompleted"
            } else {
                "ContainersNotReady"
            };
            map.insert("reason".to_owned(), reason.into());
        }
        condition
    };
    let mut status = json!({
        "phase": phase,
        "startTime": time(since),
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "conditions": [
            condition("Initialized", initialized || phase == "Succeeded"),
            condition("ContainersReady", ready),
            condition("Ready", ready),
        ],
        "containerStatuses": apps.iter().map(|c| entry(c)).collect::<Vec<_>>(),
    });
    if let Some(map) = status.as_object_mut() {
        if !init.is_empty() {
            let entries: Vec<Value> = init.iter().map(|c| entry(c)).collect();
            map.insert("initContainerStatuses".to_owned(), entries.into());
        }
        if let Some(address) = address {
            map.insert("podIP".to_owned(), address.into());
            map.insert("podIPs".to_owned(), json!([{ "ip": address }]));
        }
    }
    status
}

fn entry(container: &TrackedContainer) -> Value {
    let state = match &container.stage {
        Stage::Waiting { reason, message } => {
            json!({"waiting": {"reason": reason, "message": message}})
        }
        Stage::Running { since } => json!({"running": {"startedAt": time(*since)}}),
        Stage::Ended { since, until, code } => json!({"terminated": {
            "exitCode": code,
            "reason": if *code == 0 { "Completed" } else { "Error" },
            "startedAt": time(*since),
            "finishedAt": time(*until),
            "containerID": container.id,
        }}),
    };
    let running = matches!(container.stage, Stage::Running { .. });
    let begun = !matches!(container.stage, Stage::Waiting { .. });
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": "",
        "containerID": if begun { &container.id } else { "" },
        "ready": running || container.role == Role::Init && begun,
        "started": running,
        "restartCount": 0,
        "state": state,
    })
}

/// The status of a pod that the kubelet will never start.
pub(super) fn rejected(reason: &str, message: &str) -> Value {
    json!({
        "phase": "Failed",
        "reason": reason,
        "message": format!("Pod was rejected: {message}"),
        "startTime": time(Timestamp::now()),
    })
}
