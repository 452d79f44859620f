//! Rules for object metadata: names, labels, annotations, finalizers, and what an update may not change.

use serde_json::Value;

use crate::failure::Cause;
use crate::json::Path;
use crate::resource::{NameRule, Resource};

/// All annotations of an object together may take this many bytes.
const ANNOTATION_BYTES: usize = 256 * 1024;

pub(super) fn check(resource: &Resource, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = object.text("metadata.name");
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else if let Some(why) = name_problem(resource.names, name) {
        causes.push(Cause::invalid("metadata.name", &name.into(), why));
    }
    for (key, value) in object.map("metadata.labels").into_iter().flatten() {
        if !is_qualified_name(key) {
            let why = "a label key is a name of up to 63 letters, digits, '-', '_' or '.', \
                       with an optional DNS prefix and '/'";
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), why));
        }
        if !value.as_str().is_some_and(is_label_value) {
            let why = "a label value is at most 63 letters, digits, '-', '_' or '.', \
                       starting and ending with a letter or digit";
            causes.push(Cause::invalid("metadata.labels", value, why));
        }
    }
    causes.extend(check_annotations(object));
    for finalizer in object.list("metadata.finalizers") {
        if !finalizer.as_str().is_some_and(is_qualified_name) {
            let why = "a finalizer is a qualified name";
            causes.push(Cause::invalid("metadata.finalizers", finalizer, why));
        }
    }
    causes
}

fn check_annotations(object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut bytes = 0;
    for (key, value) in object.map("metadata.annotations").into_iter().flatten() {
        if !is_qualified_name(&key.to_ascii_lowercase()) {
            let why = "an annotation key is a qualified name";
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                why,
            ));
        }
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATION_BYTES {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {ANNOTATION_BYTES} bytes"),
            field: "metadata.annotations".to_owned(),
        });
    }
    causes
}

/// What may never change: identity.
pub(super) fn check_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    for field in ["metadata.name", "metadata.namespace", "metadata.uid"] {
        if new.text(field) != old.text(field) {
            causes.push(Cause::invalid(
                field,
                &new.text(field).into(),
                "field is immutable",
            ));
        }
    }
    let added = new.list("metadata.finalizers").iter();
    let added = added
        .filter(|f| !old.list("metadata.finalizers").contains(f))
        .collect::<Vec<_>>();
    if old.at("metadata.deletionTimestamp").is_some() && !added.is_empty() {
        let why = "no new finalizers can be added if the object is being deleted";
        causes.push(Cause::forbidden("metadata.finalizers", why));
    }
    causes
}

fn name_problem(rule: NameRule, name: &str) -> Option<&'static str> {
    match rule {
        NameRule::Subdomain if !is_subdomain(name) => {
            Some("must be lower case letters, digits, '-' or '.' (an RFC 1123 subdomain)")
        }
        NameRule::Label if !is_dns_label(name) => {
            Some("must be at most 63 lower case letters, digits or '-' (an RFC 1123 label)")
        }
        _ if name == "." || name == ".." || name.contains(['/', '%']) => {
            Some("must be usable as one segment of a path")
        }
        _ => None,
    }
}

pub(super) fn is_dns_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

pub(super) fn is_subdomain(text: &str) -> bool {
    let part = |part: &str| {
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty()
            && part.bytes().all(inner)
            && !part.starts_with('-')
            && !part.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(part)
}

pub(super) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_plain_name(name),
        None => is_plain_name(text),
    }
}

fn is_plain_name(text: &str) -> bool {
    !text.is_empty() && is_label_value(text)
}

/// Letters, digits, `-`, `_`, `.`; letters or digits at both ends; may be empty.
fn is_label_value(text: &str) -> bool {
    let edge = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
        && edge(bytes.first())
        && edge(bytes.last())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::BUILT_IN;

    fn fields(object: &Value) -> Vec<String> {
        let pods = BUILT_IN.iter().find(|r| r.kind == "Pod").unwrap();
        let causes = check(pods, object).into_iter();
        causes.map(|cause| cause.field).collect()
    }

    #[test]
    fn names_labels_and_annotations_are_checked() {
        let good = json!({"metadata": {
            "name": "a-b.c",
            "labels": {"x.io/y": "Z_1", "e": ""},
            "annotations": {"x.io/Y": "anything at all"},
        }});
        assert!(fields(&good).is_empty());
        for (metadata, field) in [
            (json!({}), "metadata.name"),
            (json!({"name": "Upper"}), "metadata.name"),
            (json!({"name": "a..b"}), "metadata.name"),
            (json!({"name": "-a"}), "metadata.name"),
        ] {
            assert_eq!(fields(&json!({"metadata": metadata})), [field], "{field}");
        }
        for (kind, name, value) in [
            ("labels", "k", "-x"),
            ("labels", "a/b/c", "x"),
            ("annotations", "sp ace", "x"),
            ("annotations", "a", &"x".repeat(300_000)),
        ] {
            let object = json!({"metadata": {"name": "a", kind: {name: value}}});
            assert_eq!(fields(&object), [format!("metadata.{kind}")], "{name}");
        }
    }

    #[test]
    fn identity_does_not_change_and_a_dying_object_gets_no_finalizers() {
        let old = json!({"metadata": {"name": "a", "uid": "1", "deletionTimestamp": "t"}});
        let new = json!({"metadata": {"name": "a", "uid": "2", "finalizers": ["x/y"]}});
        let causes = check_update(&new, &old).into_iter();
        let fields: Vec<_> = causes.map(|cause| cause.field).collect();
        assert_eq!(fields, ["metadata.uid", "metadata.finalizers"]);
    }
}
