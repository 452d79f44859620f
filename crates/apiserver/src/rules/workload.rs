//! Defaults and checks of the kinds that create pods, and of services: enough that what users apply is stored as the
//! real server would store it. No controller runs here.

use serde_json::{Value, json};

use super::pod::default_pod_spec;
use super::pod_check;
use crate::failure::Cause;
use crate::json::Path;
use crate::selector::LabelSelector;

pub(super) fn default_workload(kind: &str, object: &mut Value) {
    if object.at("spec").is_none() {
        return;
    }
    match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" => object.default_to("spec.replicas", 1),
        "Job" => {
            object.default_to("spec.parallelism", 1);
            object.default_to("spec.completions", 1);
            object.default_to("spec.backoffLimit", 6);
        }
        _ => {}
    }
    let pod = pod_spec(kind);
    if object.at(pod).is_some() {
        default_pod_spec(object, pod);
    }
}

/// The path of the pod spec in a kind.
fn pod_spec(kind: &str) -> &'static str {
    match kind {
        "CronJob" => "spec.jobTemplate.spec.template.spec",
        _ => "spec.template.spec",
    }
}

pub(super) fn default_service(service: &mut Value) {
    service.default_to("spec.sessionAffinity", "None");
    service.default_to("spec.type", "ClusterIP");
    service.default_to("spec.internalTrafficPolicy", "Cluster");
    for port in service.list_mut("spec.ports") {
        port.default_to("protocol", "TCP");
        let number = port.at("port").cloned().unwrap_or(json!(0));
        port.default_to("targetPort", number);
    }
}

pub(super) fn check(kind: &str, object: &Value) -> Vec<Cause> {
    let mut causes = pod_check::check_spec(object, pod_spec(kind));
    if matches!(kind, "Job" | "CronJob") {
        return causes;
    }
    let labels = object.map("spec.template.metadata.labels");
    match LabelSelector::from_object(object.at("spec.selector")) {
        None => causes.push(Cause::required("spec.selector", "")),
        Some(selector) if selector.is_empty() => {
            let value = object.at("spec.selector").cloned().unwrap_or_default();
            let why = "empty selector is invalid for this kind";
            causes.push(Cause::invalid("spec.selector", &value, why));
        }
        Some(selector) if !selector.matches(labels) => {
            let value = json!(labels);
            let why = "`selector` does not match template `labels`";
            causes.push(Cause::invalid("spec.template.metadata.labels", &value, why));
        }
        Some(_) => {}
    }
    causes
}
