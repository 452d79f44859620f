//! A set of field paths as a tree, in the vocabulary of FieldsV1: `f:name` for a field, `k:{…}` for an item of a keyed
//! list, `v:…` for a member of a set, `.` for the element itself beside its children.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// One element of the tree, with everything below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// The path that ends here is in the set.
    pub(super) here: bool,
    pub(super) below: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// The set of just the element itself.
    pub(super) fn leaf() -> Self {
        Self {
            here: true,
            below: BTreeMap::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.here && self.below.values().all(Self::is_empty)
    }

    /// Adds a child unless it is empty.
    pub(super) fn insert(&mut self, element: String, child: Self) {
        if !child.is_empty() {
            self.below.insert(element, child);
        }
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        self.here |= other.here;
        for (element, child) in &other.below {
            self.below.entry(element.clone()).or_default().unite(child);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        self.here &= !other.here;
        for (element, child) in &other.below {
            if let Some(mine) = self.below.get_mut(element) {
                mine.subtract(child);
                if mine.is_empty() {
                    self.below.remove(element);
                }
            }
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let mut common = Self {
            here: self.here && other.here,
            below: BTreeMap::new(),
        };
        for (element, child) in &self.below {
            if let Some(theirs) = other.below.get(element) {
                common.insert(element.clone(), child.intersection(theirs));
            }
        }
        common
    }

    /// Removes a top-level field and everything below it.
    pub(crate) fn remove_field(&mut self, field: &str) {
        self.below.remove(&format!("f:{field}"));
    }

    /// Paths as refusals show them: `.spec.containers[name="c"].image`.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, path: &str, paths: &mut Vec<String>) {
        if self.here {
            paths.push(path.to_owned());
        }
        for (element, child) in &self.below {
            child.collect(&format!("{path}{}", readable(element)), paths);
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        if self.here && !self.below.is_empty() {
            map.insert(".".to_owned(), Value::Object(Map::new()));
        }
        for (element, child) in &self.below {
            map.insert(element.clone(), child.to_json());
        }
        Value::Object(map)
    }

    /// Reads FieldsV1; an element without children is itself in the set.
    pub(crate) fn from_json(value: &Value) -> Self {
        let mut set = Self::default();
        let Some(map) = value.as_object() else {
            return set;
        };
        for (element, child) in map {
            if element == "." {
                set.here = true;
            } else {
                let mut child_set = Self::from_json(child);
                child_set.here |= child.as_object().is_none_or(Map::is_empty);
                set.below.insert(element.clone(), child_set);
            }
        }
        set
    }
}

fn readable(element: &str) -> String {
    if let Some(field) = element.strip_prefix("f:") {
        return format!(".{field}");
    }
    if let Some(keys) = element.strip_prefix("k:")
        && let Ok(Value::Object(keys)) = serde_json::from_str(keys)
    {
        let keys = keys.iter().map(|(key, value)| format!("{key}={value}"));
        return format!("[{}]", keys.collect::<Vec<_>>().join(","));
    }
    format!("[={}]", element.strip_prefix("v:").unwrap_or(element))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(value: &Value) -> FieldSet {
        FieldSet::from_json(value)
    }

    #[test]
    fn fields_v1_survives_reading_and_writing() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}}}},
        });
        assert_eq!(set(&fields).to_json(), fields);
        assert_eq!(
            set(&fields).paths(),
            [
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image",
            ]
        );
    }

    #[test]
    fn sets_unite_subtract_and_intersect_by_path() {
        let a = set(&json!({"f:x": {"f:p": {}, "f:q": {}}, "f:y": {}}));
        let b = set(&json!({"f:x": {"f:q": {}, "f:r": {}}}));
        assert_eq!(a.intersection(&b), set(&json!({"f:x": {"f:q": {}}})));
        let mut rest = a.clone();
        rest.subtract(&b);
        assert_eq!(rest, set(&json!({"f:x": {"f:p": {}}, "f:y": {}})));
        let mut all = a.clone();
        all.unite(&b);
        assert_eq!(all.paths(), [".x.p", ".x.q", ".x.r", ".y"]);
        rest.subtract(&a);
        assert!(rest.is_empty());
    }
}
