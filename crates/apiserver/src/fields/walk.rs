//! Walks objects by the rules of list identity: lists the fields of an object, compares two states, merges an applied
//! configuration into the live object, and removes fields again.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::set::FieldSet;
use crate::schema::{ListKind, default_key, is_atomic_map, list_kind};

/// Fields without an owner: identity, and what the server itself writes.
const UNOWNED: &[&str] = &[
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
];

/// All fields of an object that can have an owner.
pub(crate) fn fields_of(object: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    for (key, value) in object
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(key, _)| owned("", key))
    {
        set.insert(field(key), of_field("", key, value));
    }
    set
}

fn owned(parent: &str, key: &str) -> bool {
    match parent {
        "" => key != "apiVersion" && key != "kind",
        "metadata" => !UNOWNED.contains(&key),
        _ => true,
    }
}

fn field(key: &str) -> String {
    format!("f:{key}")
}

fn of_field(parent: &str, key: &str, value: &Value) -> FieldSet {
    match value {
        Value::Object(map) if !is_atomic_map(key) && !map.is_empty() => of_map(key, map),
        Value::Array(items) if !items.is_empty() => match elements(parent, key, items) {
            Some(elements) => {
                let mut set = FieldSet::default();
                for (element, item) in elements {
                    let mut child = match item {
                        Value::Object(map) => of_map(key, map),
                        _ => FieldSet::default(),
                    };
                    child.here = true;
                    set.insert(element, child);
                }
                set
            }
            None => FieldSet::leaf(),
        },
        _ => FieldSet::leaf(),
    }
}

fn of_map(parent: &str, map: &Map<String, Value>) -> FieldSet {
    let mut set = FieldSet::default();
    for (key, value) in map.iter().filter(|(key, _)| owned(parent, key)) {
        set.insert(field(key), of_field(parent, key, value));
    }
    set
}

/// The items of a list by their identity; `None` if the list counts as one value.
fn elements<'v>(
    parent: &str,
    list: &str,
    items: &'v [Value],
) -> Option<BTreeMap<String, &'v Value>> {
    match list_kind(parent, list) {
        ListKind::Keyed { apply, .. } if !apply.is_empty() => items
            .iter()
            .map(|item| item_key(item, apply).map(|key| (key, item)))
            .collect(),
        ListKind::Set => Some(
            items
                .iter()
                .map(|item| (format!("v:{item}"), item))
                .collect(),
        ),
        _ => None,
    }
}

fn item_key(item: &Value, keys: &[&str]) -> Option<String> {
    let mut identity = Map::new();
    for key in keys {
        let value = match item.get(key) {
            Some(value) => value.clone(),
            None => default_key(key)?.into(),
        };
        identity.insert((*key).to_owned(), value);
    }
    Some(format!("k:{}", Value::Object(identity)))
}

/// What changed from one state to another: (changed or added, removed).
pub(crate) fn difference(old: &Value, new: &Value) -> (FieldSet, FieldSet) {
    let mut sets = Sets::default();
    let empty = Map::new();
    let (old, new) = (
        old.as_object().unwrap_or(&empty),
        new.as_object().unwrap_or(&empty),
    );
    sets.compare_maps("", old, new);
    (sets.changed, sets.removed)
}

#[derive(Default)]
struct Sets {
    changed: FieldSet,
    removed: FieldSet,
}

impl Sets {
    fn nest(&mut self, element: String, child: Self) {
        self.changed.insert(element.clone(), child.changed);
        self.removed.insert(element, child.removed);
    }

    fn compare_maps(&mut self, parent: &str, old: &Map<String, Value>, new: &Map<String, Value>) {
        for (key, value) in new.iter().filter(|(key, _)| owned(parent, key)) {
            match old.get(key) {
                Some(before) if before == value => {}
                Some(before) => self.compare_field(parent, key, before, value),
                None => self
                    .changed
                    .insert(field(key), of_field(parent, key, value)),
            }
        }
        for (key, value) in old.iter().filter(|(key, _)| owned(parent, key)) {
            if !new.contains_key(key) {
                let mut gone = of_field(parent, key, value);
                gone.here = true;
                self.removed.insert(field(key), gone);
            }
        }
    }

    fn compare_field(&mut self, parent: &str, key: &str, before: &Value, after: &Value) {
        let mut child = Self::default();
        match (before, after) {
            (Value::Object(old), Value::Object(new)) if !is_atomic_map(key) => {
                child.compare_maps(key, old, new);
            }
            (Value::Array(old), Value::Array(new)) => {
                match (elements(parent, key, old), elements(parent, key, new)) {
                    (Some(old), Some(new)) => child.compare_items(key, &old, &new),
                    _ => child.changed = FieldSet::leaf(),
                }
            }
            _ => child.changed = FieldSet::leaf(),
        }
        self.nest(field(key), child);
    }

    fn compare_items(
        &mut self,
        list: &str,
        old: &BTreeMap<String, &Value>,
        new: &BTreeMap<String, &Value>,
    ) {
        let whole = |item: &Value| {
            let mut set = item
                .as_object()
                .map(|map| of_map(list, map))
                .unwrap_or_default();
            set.here = true;
            set
        };
        for (element, item) in new {
            match (old.get(element).map(|o| o.as_object()), item.as_object()) {
                (None, _) => self.changed.insert(element.clone(), whole(item)),
                (Some(Some(before)), Some(after)) => {
                    let mut child = Self::default();
                    child.compare_maps(list, before, after);
                    self.nest(element.clone(), child);
                }
                _ => {}
            }
        }
        for (element, item) in old {
            if !new.contains_key(element) {
                self.removed.insert(element.clone(), whole(item));
            }
        }
    }
}

/// Merges an applied configuration into the live object.
pub(crate) fn apply_onto(live: &mut Value, config: &Value) {
    if let Value::Object(config) = config {
        lay_map("", crate::json::Path::map_mut(live, ""), config);
    }
}

fn lay_map(parent: &str, live: &mut Map<String, Value>, config: &Map<String, Value>) {
    for (key, value) in config.iter().filter(|(_, value)| !value.is_null()) {
        match (live.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) if !is_atomic_map(key) => {
                lay_map(key, old, new);
            }
            (Some(Value::Array(old)), Value::Array(new)) => lay_list(parent, key, old, new),
            _ => {
                live.insert(key.clone(), value.clone());
            }
        }
    }
}

fn lay_list(parent: &str, key: &str, live: &mut Vec<Value>, config: &[Value]) {
    let Some(wanted) = elements(parent, key, config) else {
        *live = config.to_vec();
        return;
    };
    let Some(present) = elements(parent, key, live) else {
        *live = config.to_vec();
        return;
    };
    let places: BTreeMap<String, usize> = present
        .iter()
        .filter_map(|(element, item)| {
            Some((
                element.clone(),
                live.iter().position(|l| std::ptr::eq(l, *item))?,
            ))
        })
        .collect();
    // Existing items stay in place; new ones are appended in the order of the configuration.
    for item in config {
        let element = wanted
            .iter()
            .find(|(_, w)| std::ptr::eq(**w, item))
            .map(|(e, _)| e);
        match element
            .and_then(|e| places.get(e))
            .and_then(|place| live.get_mut(*place))
        {
            Some(Value::Object(old)) => {
                if let Value::Object(new) = item {
                    lay_map(key, old, new);
                }
            }
            Some(_) => {}
            None => live.push(item.clone()),
        }
    }
}

/// Removes the fields in `dropped` that are not in `others`, which other managers own.
pub(crate) fn prune(object: &mut Value, dropped: &FieldSet, others: &FieldSet) {
    if let Value::Object(map) = object {
        prune_map("", map, dropped, others);
    }
}

fn prune_map(parent: &str, map: &mut Map<String, Value>, dropped: &FieldSet, others: &FieldSet) {
    let nobody = FieldSet::default();
    for (element, child) in &dropped.below {
        let Some(key) = element.strip_prefix("f:") else {
            continue;
        };
        let theirs = others.below.get(element);
        if child.here && theirs.is_none() {
            map.remove(key);
            continue;
        }
        let emptied = match map.get_mut(key) {
            Some(Value::Object(inner)) => {
                prune_map(key, inner, child, theirs.unwrap_or(&nobody));
                inner.is_empty()
            }
            Some(Value::Array(items)) => {
                prune_items(parent, key, items, child, theirs.unwrap_or(&nobody));
                items.is_empty()
            }
            _ => false,
        };
        if emptied {
            map.remove(key);
        }
    }
}

fn prune_items(
    parent: &str,
    key: &str,
    items: &mut Vec<Value>,
    dropped: &FieldSet,
    others: &FieldSet,
) {
    let nobody = FieldSet::default();
    let names = |item: &Value| match list_kind(parent, key) {
        ListKind::Keyed { apply, .. } => item_key(item, apply),
        _ => Some(format!("v:{item}")),
    };
    items.retain_mut(|item| {
        let Some(element) = names(item) else {
            return true;
        };
        let Some(child) = dropped.below.get(&element) else {
            return true;
        };
        let theirs = others.below.get(&element);
        if child.here && theirs.is_none() {
            return false;
        }
        if let Value::Object(map) = item {
            prune_map(key, map, child, theirs.unwrap_or(&nobody));
        }
        true
    });
}

#[cfg(test)]
mod tests;
