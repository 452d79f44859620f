//! Strategic merge: like a JSON merge patch, but lists that have a key merge item by item, and directives
//! (`$patch`, `$retainKeys`, `$setElementOrder/…`, `$deleteFromPrimitiveList/…`) say what a plain merge cannot.

use serde_json::{Map, Value};

use crate::failure::Failure;
use crate::schema::{ListKind, list_kind};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

pub(super) fn merged(current: &Value, patch: &Value) -> Result<Value, Failure> {
    let mut value = current.clone();
    if let (Value::Object(original), Value::Object(patch)) = (&mut value, patch) {
        merge_map(original, patch, "")?;
    }
    Ok(value)
}

fn merge_map(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    parent: &str,
) -> Result<(), Failure> {
    match directive(patch)? {
        Some(Directive::Replace) => {
            *original = without_directives(patch);
            return Ok(());
        }
        Some(Directive::Delete) => {
            original.clear();
            return Ok(());
        }
        Some(Directive::Merge) | None => {}
    }
    if let Some(retained) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        original.retain(|key, _| retained.iter().any(|r| r.as_str() == Some(key)));
    }
    for (key, value) in patch.iter().filter(|(key, _)| !key.starts_with('$')) {
        merge_field(original, key, value, parent)?;
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM) {
            delete_scalars(original, field, value);
        } else if let Some(field) = key.strip_prefix(ELEMENT_ORDER) {
            order_field(original, field, value, parent);
        }
    }
    Ok(())
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: &str,
    value: &Value,
    parent: &str,
) -> Result<(), Failure> {
    match (original.get_mut(key), value) {
        (_, Value::Null) => {
            original.remove(key);
        }
        (Some(Value::Object(old)), Value::Object(new)) => merge_map(old, new, key)?,
        (Some(Value::Array(old)), Value::Array(new)) => merge_list(old, new, parent, key)?,
        (None, Value::Array(new)) => {
            let mut items = Vec::new();
            merge_list(&mut items, new, parent, key)?;
            original.insert(key.to_owned(), Value::Array(items));
        }
        (_, Value::Object(new)) => {
            original.insert(key.to_owned(), Value::Object(without_directives(new)));
        }
        _ => {
            original.insert(key.to_owned(), value.clone());
        }
    }
    Ok(())
}

fn merge_list(
    old: &mut Vec<Value>,
    new: &[Value],
    parent: &str,
    field: &str,
) -> Result<(), Failure> {
    let kind = list_kind(parent, field);
    let before = old.clone();
    match kind {
        ListKind::Keyed {
            strategic: Some(key),
            ..
        } => merge_keyed(old, new, key, field)?,
        ListKind::Set => {
            for value in new {
                if !old.contains(value) {
                    old.push(value.clone());
                }
            }
        }
        _ => {
            *old = new.to_vec();
            return Ok(());
        }
    }
    order_items(old, new, &before, kind);
    Ok(())
}

fn merge_keyed(old: &mut Vec<Value>, new: &[Value], key: &str, field: &str) -> Result<(), Failure> {
    let replaces = |item: &Value| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace");
    if new.iter().any(replaces) {
        old.clear();
    }
    for item in new.iter().filter(|item| !replaces(item)) {
        let Value::Object(item) = item else {
            return Err(refuse(&format!("items of {field} must be objects")));
        };
        let Some(id) = item.get(key) else {
            return Err(refuse(&format!(
                "an item of {field} has no merge key {key:?}"
            )));
        };
        let place = old
            .iter()
            .position(|existing| existing.get(key) == Some(id));
        match (directive(item)?, place) {
            (Some(Directive::Delete), Some(place)) => {
                old.remove(place);
            }
            (Some(Directive::Delete), None) => {}
            (_, Some(place)) => {
                if let Some(Value::Object(existing)) = old.get_mut(place) {
                    merge_map(existing, item, field)?;
                }
            }
            (_, None) => old.push(Value::Object(without_directives(item))),
        }
    }
    Ok(())
}

/// Reorders a list for which the patch gives only an order.
fn order_field(original: &mut Map<String, Value>, field: &str, order: &Value, parent: &str) {
    if let (Some(Value::Array(items)), Value::Array(order)) = (original.get_mut(field), order) {
        let before = items.clone();
        order_items(items, order, &before, list_kind(parent, field));
    }
}

/// Sorts the items that the patch names in the patch's order. A named item comes before all other items except those
/// that already preceded it.
fn order_items(items: &mut Vec<Value>, order: &[Value], before: &[Value], kind: ListKind) {
    let key = match kind {
        ListKind::Keyed {
            strategic: Some(key),
            ..
        } => Some(key),
        ListKind::Set => None,
        _ => return,
    };
    let id = |item: &Value| key.map_or(Some(item.clone()), |key| item.get(key).cloned());
    let place = |list: &[Value], item: &Value| list.iter().position(|other| id(other) == id(item));
    let (mut named, others): (Vec<Value>, Vec<Value>) = items
        .drain(..)
        .partition(|item| place(order, item).is_some());
    named.sort_by_key(|item| place(order, item));
    let mut named = named.into_iter().peekable();
    for other in others {
        let stands_before = |item: &Value| match (place(before, &other), place(before, item)) {
            (Some(mine), Some(theirs)) => mine < theirs,
            _ => false,
        };
        while let Some(item) = named.next_if(|item| !stands_before(item)) {
            items.push(item);
        }
        items.push(other);
    }
    items.extend(named);
}

fn delete_scalars(original: &mut Map<String, Value>, field: &str, doomed: &Value) {
    if let (Some(Value::Array(items)), Value::Array(doomed)) = (original.get_mut(field), doomed) {
        items.retain(|item| !doomed.contains(item));
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Directive {
    Replace,
    Delete,
    Merge,
}

fn directive(patch: &Map<String, Value>) -> Result<Option<Directive>, Failure> {
    match patch.get(DIRECTIVE).map(Value::as_str) {
        None => Ok(None),
        Some(Some("replace")) => Ok(Some(Directive::Replace)),
        Some(Some("delete")) => Ok(Some(Directive::Delete)),
        Some(Some("merge")) => Ok(Some(Directive::Merge)),
        Some(_) => Err(refuse("unknown $patch directive")),
    }
}

fn refuse(why: &str) -> Failure {
    // The real server has no better error for these either.
    Failure::bare(format!("invalid strategic merge patch: {why}"))
}

/// A patch used as a value: there is nothing to merge with, so directives and nulls have no meaning.
fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    let kept = patch
        .iter()
        .filter(|(key, value)| !key.starts_with('$') && !value.is_null());
    kept.map(|(key, value)| {
        let value = match value {
            Value::Object(inner) => Value::Object(without_directives(inner)),
            other => other.clone(),
        };
        (key.clone(), value)
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(current: &Value, patch: &Value, expected: &Value) {
        assert_eq!(&merged(current, patch).unwrap(), expected, "{patch}");
    }

    #[test]
    fn conditions_merge_by_type_and_new_ones_follow_the_patch() {
        check(
            &json!({"status": {"conditions": [
                {"type": "Ready", "status": "False", "reason": "x"},
                {"type": "Disk", "status": "True"},
            ]}}),
            &json!({"status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": null},
                {"type": "New", "status": "True"},
            ]}}),
            &json!({"status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "New", "status": "True"},
                {"type": "Disk", "status": "True"},
            ]}}),
        );
    }

    #[test]
    fn containers_merge_by_name_and_their_environment_inside_them() {
        check(
            &json!({"spec": {"containers": [
                {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}], "args": ["p"]},
                {"name": "b", "image": "1"},
            ]}}),
            &json!({"spec": {"containers": [
                {"name": "a", "env": [{"name": "Y", "value": "2"}], "args": ["q", "r"]},
                {"name": "b", "$patch": "delete"},
            ]}}),
            &json!({"spec": {"containers": [{
                "name": "a",
                "image": "1",
                "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}],
                "args": ["q", "r"],
            }]}}),
        );
    }

    #[test]
    fn lists_without_a_key_are_replaced_and_finalizers_unite() {
        check(
            &json!({"metadata": {"finalizers": ["a"]}, "spec": {"tolerations": [{"key": "x"}]}}),
            &json!({"metadata": {"finalizers": ["b"]}, "spec": {"tolerations": [{"key": "y"}]}}),
            &json!({"metadata": {"finalizers": ["b", "a"]}, "spec": {"tolerations": [{"key": "y"}]}}),
        );
        check(
            &json!({"metadata": {"finalizers": ["a", "b"]}}),
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
            &json!({"metadata": {"finalizers": ["b"]}}),
        );
    }

    #[test]
    fn a_map_can_be_replaced_or_reduced_to_named_keys() {
        check(
            &json!({"spec": {"strategy": {"type": "A", "rollingUpdate": {"x": 1}}}}),
            &json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "B"}}}),
            &json!({"spec": {"strategy": {"type": "B"}}}),
        );
        check(
            &json!({"metadata": {"labels": {"a": "1", "b": "2"}}}),
            &json!({"metadata": {"labels": {"$patch": "replace", "c": "3"}}}),
            &json!({"metadata": {"labels": {"c": "3"}}}),
        );
    }

    #[test]
    fn the_element_order_of_the_patch_wins() {
        check(
            &json!({"spec": {"containers": [{"name": "a"}, {"name": "side"}, {"name": "b"}]}}),
            &json!({"spec": {
                "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                "containers": [{"name": "a", "image": "2"}],
            }}),
            &json!({"spec": {"containers": [
                {"name": "side"}, {"name": "b"}, {"name": "a", "image": "2"},
            ]}}),
        );
    }

    #[test]
    fn an_item_without_its_key_and_an_unknown_directive_are_refused() {
        let pod = json!({"spec": {"containers": [{"name": "a"}]}});
        for patch in [
            json!({"spec": {"containers": [{"image": "x"}]}}),
            json!({"spec": {"$patch": "explode"}}),
        ] {
            assert_eq!(merged(&pod, &patch).unwrap_err().code, 500, "{patch}");
        }
    }
}
