//! Cells that show more than one field of the object.

use jiff::Timestamp;
use serde_json::Value;

use super::age::{between, since};
use crate::json::Path;

const NONE: &str = "<none>";

pub(super) fn or_none(text: &str) -> String {
    if text.is_empty() { NONE } else { text }.to_owned()
}

/// `a=1,b=2`.
pub(super) fn pairs(object: &Value, path: &str) -> String {
    let pairs = object.map(path).into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    or_none(&pairs.join(","))
}

/// A field of every container of a template, joined.
pub(super) fn of_containers(object: &Value, field: &str) -> String {
    let containers = object.list("spec.template.spec.containers").iter();
    let values: Vec<&str> = containers.map(|container| container.text(field)).collect();
    values.join(",")
}

fn condition<'v>(object: &'v Value, kind: &str) -> Option<&'v Value> {
    let mut conditions = object.list("status.conditions").iter();
    conditions.find(|condition| condition.text("type") == kind)
}

pub(super) fn condition_status(object: &Value, kind: &str) -> String {
    condition(object, kind)
        .map(|condition| condition.text("status").to_owned())
        .unwrap_or_default()
}

/// How many containers are ready, of how many.
pub(super) fn pod_ready(pod: &Value) -> String {
    let statuses = pod.list("status.containerStatuses").iter();
    let ready = statuses.filter(|status| status.at("ready").is_some_and(|ready| *ready == true));
    format!("{}/{}", ready.count(), pod.list("spec.containers").len())
}

/// The pod's status in one word: the first problem, or otherwise its phase.
pub(super) fn pod_status(pod: &Value) -> String {
    if pod.at("metadata.deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    let scheduled = condition(pod, "PodScheduled");
    if scheduled.is_some_and(|scheduled| scheduled.text("reason") == "SchedulingGated") {
        return "SchedulingGated".to_owned();
    }
    if let Some(reason) = init_status(pod) {
        return reason;
    }
    let mut shown = match pod.text("status.reason") {
        "" => pod.text("status.phase").to_owned(),
        reason => reason.to_owned(),
    };
    // The first container with a reason wins, as in kubectl: the loop runs backwards and overwrites.
    for status in pod.list("status.containerStatuses").iter().rev() {
        let (waiting, ended) = (
            status.text("state.waiting.reason"),
            status.text("state.terminated.reason"),
        );
        if !waiting.is_empty() {
            waiting.clone_into(&mut shown);
        } else if !ended.is_empty() {
            ended.clone_into(&mut shown);
        }
    }
    shown
}

fn init_status(pod: &Value) -> Option<String> {
    let total = pod.list("spec.initContainers").len();
    let statuses = pod.list("status.initContainerStatuses");
    for (number, status) in statuses.iter().enumerate() {
        let done = status.int("state.terminated.exitCode") == Some(0)
            || status.at("started").is_some_and(|started| *started == true);
        if done {
            continue;
        }
        return Some(match status.text("state.waiting.reason") {
            "" | "PodInitializing" => format!("Init:{number}/{total}"),
            reason => format!("Init:{reason}"),
        });
    }
    None
}

pub(super) fn pod_restarts(pod: &Value) -> i64 {
    let statuses = pod.list("status.containerStatuses").iter();
    statuses
        .filter_map(|status| status.int("restartCount"))
        .sum()
}

pub(super) fn node_status(node: &Value) -> String {
    let mut status = match condition_status(node, "Ready").as_str() {
        "True" => "Ready",
        "False" | "" => "NotReady",
        _ => "Unknown",
    }
    .to_owned();
    if node
        .at("spec.unschedulable")
        .is_some_and(|closed| *closed == true)
    {
        status.push_str(",SchedulingDisabled");
    }
    status
}

pub(super) fn node_roles(node: &Value) -> String {
    let labels = node.map("metadata.labels").into_iter().flatten();
    let roles: Vec<&str> = labels
        .filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/"))
        .collect();
    or_none(&roles.join(","))
}

pub(super) fn node_address(node: &Value, kind: &str) -> String {
    let mut addresses = node.list("status.addresses").iter();
    let found = addresses.find(|address| address.text("type") == kind);
    or_none(found.map_or("", |address| address.text("address")))
}

/// When an event was last seen; it may be a series, counted, or single.
pub(super) fn event_last_seen(event: &Value, now: Timestamp) -> String {
    let times = [
        "series.lastObservedTime",
        "lastTimestamp",
        "eventTime",
        "firstTimestamp",
    ];
    let mut times = times.iter().map(|path| event.text(path));
    since(times.find(|time| !time.is_empty()).unwrap_or_default(), now)
}

pub(super) fn event_object(event: &Value) -> String {
    let kind = event.text("involvedObject.kind").to_lowercase();
    format!("{kind}/{}", event.text("involvedObject.name"))
}

/// `2/3`: a count from the status, and how many the spec asks for.
pub(super) fn of_replicas(object: &Value, field: &str) -> String {
    let count = object.int(field).unwrap_or(0);
    format!("{count}/{}", object.int("spec.replicas").unwrap_or(0))
}

pub(super) fn job_status(job: &Value) -> String {
    let has = |kind: &str| condition_status(job, kind) == "True";
    let status = match () {
        () if has("Complete") => "Complete",
        () if has("Failed") => "Failed",
        () if job.at("metadata.deletionTimestamp").is_some() => "Terminating",
        () if has("Suspended") => "Suspended",
        () => "Running",
    };
    status.to_owned()
}

pub(super) fn job_completions(job: &Value) -> String {
    let done = job.int("status.succeeded").unwrap_or(0);
    format!("{done}/{}", job.int("spec.completions").unwrap_or(1))
}

pub(super) fn job_duration(job: &Value, now: Timestamp) -> String {
    between(
        job.text("status.startTime"),
        job.text("status.completionTime"),
        now,
    )
}

/// `80/TCP,443/TCP`.
pub(super) fn service_ports(service: &Value) -> String {
    let ports = service.list("spec.ports").iter();
    let ports: Vec<String> = ports
        .map(|port| {
            format!(
                "{}/{}",
                port.int("port").unwrap_or(0),
                port.text("protocol")
            )
        })
        .collect();
    or_none(&ports.join(","))
}

/// A number or a percentage of a disruption budget.
pub(super) fn number_or_percentage(object: &Value, path: &str) -> String {
    match object.at(path) {
        Some(Value::String(text)) => text.clone(),
        Some(number) => number.to_string(),
        None => "N/A".to_owned(),
    }
}
