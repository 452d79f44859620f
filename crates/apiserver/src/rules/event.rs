//! Events exist in two API versions over one table. The stored form is core/v1; events.k8s.io/v1 is a view of it.

use serde_json::{Map, Value};

use crate::failure::Cause;
use crate::json::Path;

/// (core/v1, events.k8s.io/v1) for the fields that are named differently.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An events.k8s.io/v1 event as core/v1.
pub(crate) fn to_stored(event: &Value) -> Value {
    rename(event, "v1", RENAMED.map(|(old, new)| (new, old)))
}

/// A stored event as events.k8s.io/v1.
pub(crate) fn to_view(event: &Value) -> Value {
    rename(event, "events.k8s.io/v1", RENAMED)
}

/// The event in another version, in which some fields have another name.
fn rename(event: &Value, version: &str, names: [(&str, &str); 7]) -> Value {
    let mut map = Map::new();
    for (key, value) in event.as_object().into_iter().flatten() {
        let renamed = names.iter().find(|(name, _)| name == key);
        let key = renamed.map_or(key.as_str(), |(_, other)| other);
        map.insert(key.to_owned(), value.clone());
    }
    map.insert("apiVersion".to_owned(), version.into());
    Value::Object(map)
}

/// The stored name of a field that a selector of the view names.
pub(crate) fn stored_field(field: &str) -> String {
    match field.split_once('.') {
        Some(("regarding", rest)) => format!("involvedObject.{rest}"),
        _ if field == "reportingController" => "reportingComponent".to_owned(),
        _ => field.to_owned(),
    }
}

/// An event must be in the namespace of the object that it is about.
pub(super) fn check(event: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let namespace = event.text("metadata.namespace");
    let about = event.text("involvedObject.namespace");
    // Events with an eventTime may be in any namespace, unless they are about an object without a namespace.
    let is_new_style = event.at("eventTime").is_some();
    let misplaced = match (is_new_style, about.is_empty()) {
        (true, true) => !matches!(namespace, "default" | "kube-system"),
        (true, false) => false,
        (false, true) => !matches!(namespace, "default" | ""),
        (false, false) => about != namespace,
    };
    if misplaced {
        let why = "does not match event.namespace";
        let field = "involvedObject.namespace";
        causes.push(Cause::invalid(field, &about.into(), why));
    }
    if is_new_style {
        for field in [
            "reportingComponent",
            "reportingInstance",
            "action",
            "reason",
        ] {
            if event.text(field).is_empty() {
                causes.push(Cause::required(field, ""));
            } else if event.text(field).len() > 128 {
                let why = "can have at most 128 characters";
                causes.push(Cause::invalid(field, &"".into(), why));
            }
        }
        if event.text("message").len() > 1024 {
            let why = "can have at most 1024 bytes";
            causes.push(Cause::invalid("message", &Value::Null, why));
        }
    }
    causes
}

/// The stricter rules for events created through events.k8s.io/v1.
pub(crate) fn check_view(event: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if event.at("eventTime").is_none() {
        causes.push(Cause::required("eventTime", ""));
    }
    let kind = event.text("type");
    if kind != "Normal" && kind != "Warning" {
        let why = "must be Normal or Warning";
        causes.push(Cause::invalid("type", &"".into(), why));
    }
    for field in ["firstTimestamp", "lastTimestamp", "count"] {
        if event.at(field).is_some() {
            causes.push(Cause::invalid(field, &"".into(), "needs to be unset"));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_reads_the_same_after_going_through_the_other_version() {
        let stored = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "ns"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"},
            "message": "hello",
            "reportingComponent": "x",
            "count": 2,
        });
        let view = to_view(&stored);
        assert_eq!(view.text("note"), "hello");
        assert_eq!(view.text("regarding.name"), "p");
        assert_eq!(to_stored(&view), stored);
        assert_eq!(stored_field("regarding.name"), "involvedObject.name");
        assert_eq!(stored_field("reason"), "reason");
    }

    #[test]
    fn an_event_must_live_beside_its_object() {
        let event = |namespace: &str, about: &str| json!({"metadata": {"namespace": namespace}, "involvedObject": {"namespace": about}});
        assert!(check(&event("ns", "ns")).is_empty());
        assert!(check(&event("default", "")).is_empty());
        assert_eq!(
            check(&event("ns", "other"))[0].field,
            "involvedObject.namespace"
        );
        assert_eq!(check(&event("ns", ""))[0].field, "involvedObject.namespace");
    }
}
