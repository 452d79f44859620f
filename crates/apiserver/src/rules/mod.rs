//! What the API server does with an object and requires of it beyond its shape: defaults on create, which parts a write
//! may change, and validation. Pure functions of the object; rules that need other objects are in the registry.

pub(crate) mod event;
mod meta;
mod pod;
mod pod_check;
mod workload;

use serde_json::{Value, json};

use crate::failure::Cause;
use crate::json::Path;
use crate::resource::{Resource, Subresource};
use crate::typed::is_built_in;

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    Finalize,
}

/// Sets the defaults that apply to every write of an object, as decoding does in the real server.
pub(crate) fn default_object(resource: &Resource, object: &mut Value) {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::default_pod(object),
        ("", "Namespace") => {
            let name = object.text("metadata.name").to_owned();
            if !name.is_empty() {
                let labels = object.map_mut("metadata.labels");
                labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
            }
            object.default_to("status.phase", "Active");
        }
        ("", "Node") => {
            if let (None, Some(capacity)) = (
                object.at("status.allocatable"),
                object.at("status.capacity").cloned(),
            ) {
                object.put("status.allocatable", capacity);
            }
        }
        ("", "Secret") => object.default_to("type", "Opaque"),
        ("", "Service") => workload::default_service(object),
        ("apps" | "batch", _) => workload::default_workload(resource.kind, object),
        _ => {}
    }
}

/// Resets what a client may not set on create.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    if resource.habits.resets_status_on_create
        && resource.subresources.contains(&Subresource::Status)
    {
        object.remove("status");
    }
    if resource.habits.generation || !is_built_in(resource) {
        object.put("metadata.generation", 1);
    } else {
        object.remove("metadata.generation");
    }
    match (resource.group, resource.kind) {
        ("", "Pod") => pod::prepare_create(object),
        ("", "Namespace") => {
            object.put("status", json!({"phase": "Active"}));
            let finalizers = object.list("spec.finalizers");
            if !finalizers.iter().any(|f| f == "kubernetes") {
                let mut finalizers = finalizers.to_vec();
                finalizers.push("kubernetes".into());
                object.put("spec.finalizers", finalizers);
            }
        }
        ("", "Node") => taint_new_node(object),
        ("policy", "PodDisruptionBudget") => {
            let counts = [
                "currentHealthy",
                "desiredHealthy",
                "disruptionsAllowed",
                "expectedPods",
            ];
            object.put(
                "status",
                counts
                    .map(|name| (name.to_owned(), json!(0)))
                    .into_iter()
                    .collect::<Value>(),
            );
        }
        _ => {}
    }
}

/// A new node gets no pods until a controller finds it ready.
fn taint_new_node(node: &mut Value) {
    let key = "node.kubernetes.io/not-ready";
    let mut taints = node.list("spec.taints").to_vec();
    if !taints
        .iter()
        .any(|t| t.text("key") == key && t.text("effect") == "NoSchedule")
    {
        taints.push(json!({"key": key, "effect": "NoSchedule"}));
        node.put("spec.taints", taints);
    }
}

/// Restores what a write of this part may not change.
pub(crate) fn prepare_update(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    new.copy("metadata.generation", old);
    match part {
        Part::Main => {
            if resource.subresources.contains(&Subresource::Status) {
                new.copy("status", old);
            }
            if resource.is("", "namespaces") {
                new.copy("spec.finalizers", old);
            }
            let counts = resource.habits.generation || !is_built_in(resource);
            if counts && content(new) != content(old) {
                new.put(
                    "metadata.generation",
                    old.int("metadata.generation").unwrap_or(0) + 1,
                );
            }
        }
        Part::Status => {
            new.copy("spec", old);
            if resource.is("", "pods") {
                new.copy("metadata.ownerReferences", old);
                if new.text("status.qosClass").is_empty() {
                    new.copy("status.qosClass", old);
                }
            }
            if !is_built_in(resource) {
                let mut kept = old.clone();
                kept.copy("status", new);
                *new = kept;
            }
        }
        Part::Finalize => new.copy("status", old),
    }
}

/// The part whose changes the generation counts: everything but metadata and status.
fn content(object: &Value) -> Value {
    let mut content = object.clone();
    content.remove("metadata");
    content.remove("status");
    content
}

/// Everything wrong with a new object.
pub(crate) fn check_create(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = meta::check(resource, object);
    causes.extend(check_kind(resource, object));
    causes
}

/// Everything wrong with a changed object.
pub(crate) fn check_update(
    resource: &Resource,
    part: Part,
    new: &Value,
    old: &Value,
) -> Vec<Cause> {
    let mut causes = meta::check(resource, new);
    causes.extend(meta::check_update(new, old));
    match (part, resource.kind) {
        (Part::Main, "Pod") => causes.extend(pod_check::check_update(new, old)),
        (Part::Main, _) => causes.extend(check_kind(resource, new)),
        _ => {}
    }
    causes
}

fn check_kind(resource: &Resource, object: &Value) -> Vec<Cause> {
    match (resource.group, resource.kind) {
        ("", "Pod") => pod_check::check(object),
        ("" | "events.k8s.io", "Event") => event::check(object),
        ("apps" | "batch", _) => workload::check(resource.kind, object),
        ("coordination.k8s.io", "Lease") => check_lease(object),
        _ => Vec::new(),
    }
}

fn check_lease(lease: &Value) -> Vec<Cause> {
    let positive = |field: &str| match lease.int(field) {
        Some(number) if number <= 0 => Some(Cause::invalid(
            field,
            &number.into(),
            "must be greater than 0",
        )),
        _ => None,
    };
    let transitions = match lease.int("spec.leaseTransitions") {
        Some(number) if number < 0 => {
            let field = "spec.leaseTransitions";
            Some(Cause::invalid(
                field,
                &number.into(),
                "must be greater than or equal to 0",
            ))
        }
        _ => None,
    };
    positive("spec.leaseDurationSeconds")
        .into_iter()
        .chain(transitions)
        .collect()
}
