//! Reading and writing JSON by dotted path. Objects are kept as plain JSON so that every kind is stored alike;
//! these helpers are the only place that walks them by name.
//!
//! A path names struct fields only: keys that contain dots (labels, resource names) are reached through their map.

use serde_json::{Map, Value};

/// Path access on a JSON value; a missing field reads as empty, as in the API itself.
pub(crate) trait Path {
    fn at(&self, path: &str) -> Option<&Value>;
    fn text(&self, path: &str) -> &str;
    fn int(&self, path: &str) -> Option<i64>;
    fn list(&self, path: &str) -> &[Value];
    fn map(&self, path: &str) -> Option<&Map<String, Value>>;
    /// The map at a path; missing maps along the path are created.
    fn map_mut(&mut self, path: &str) -> &mut Map<String, Value>;
    /// The items at a path, to change them; missing maps above the list are created.
    fn list_mut(&mut self, path: &str) -> &mut [Value];
    fn put(&mut self, path: &str, value: impl Into<Value>);
    fn remove(&mut self, path: &str) -> Option<Value>;
    /// Copies the field from another object, or removes it if that object has none.
    fn copy(&mut self, path: &str, from: &Value);
    /// Sets a field that is missing or null.
    fn default_to(&mut self, path: &str, value: impl Into<Value>);
}

impl Path for Value {
    fn at(&self, path: &str) -> Option<&Value> {
        path.split('.')
            .try_fold(self, |value, key| value.get(key))
            .filter(|v| !v.is_null())
    }

    fn text(&self, path: &str) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or_default()
    }

    fn int(&self, path: &str) -> Option<i64> {
        self.at(path).and_then(Value::as_i64)
    }

    fn list(&self, path: &str) -> &[Value] {
        self.at(path)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    fn map(&self, path: &str) -> Option<&Map<String, Value>> {
        self.at(path).and_then(Value::as_object)
    }

    fn map_mut(&mut self, path: &str) -> &mut Map<String, Value> {
        let mut map = as_map(self);
        if path.is_empty() {
            return map;
        }
        for key in path.split('.') {
            map = as_map(map.entry(key).or_insert(Value::Null));
        }
        map
    }

    fn list_mut(&mut self, path: &str) -> &mut [Value] {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        match self.map_mut(parent).get_mut(key) {
            Some(Value::Array(items)) => items,
            _ => &mut [],
        }
    }

    fn put(&mut self, path: &str, value: impl Into<Value>) {
        let (parent, key) = path.rsplit_once('.').unwrap_or(("", path));
        self.map_mut(parent).insert(key.to_owned(), value.into());
    }

    fn remove(&mut self, path: &str) -> Option<Value> {
        let (parents, key) = path.rsplit_once('.').unwrap_or(("", path));
        let parent = if parents.is_empty() {
            Some(self)
        } else {
            parents
                .split('.')
                .try_fold(self, |value, key| value.get_mut(key))
        };
        parent?.as_object_mut()?.remove(key)
    }

    fn copy(&mut self, path: &str, from: &Value) {
        match from.at(path) {
            Some(value) => self.put(path, value.clone()),
            None => {
                self.remove(path);
            }
        }
    }

    fn default_to(&mut self, path: &str, value: impl Into<Value>) {
        if self.at(path).is_none() {
            self.put(path, value);
        }
    }
}

/// The value as a map; anything else is replaced by an empty one.
fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("made an object just above"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn missing_and_null_fields_read_as_empty() {
        let pod = json!({"metadata": {"name": "a", "labels": null}});
        assert_eq!(pod.text("metadata.name"), "a");
        assert_eq!(pod.text("spec.nodeName"), "");
        assert!(pod.map("metadata.labels").is_none());
        assert!(pod.list("spec.containers").is_empty());
    }

    #[test]
    fn writing_makes_the_way_down_and_copying_a_missing_field_removes_it() {
        let mut pod = json!({"metadata": {"labels": null}});
        pod.map_mut("metadata.labels")
            .insert("a".to_owned(), "b".into());
        pod.put("spec.nodeName", "n1");
        assert_eq!(
            pod,
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n1"}})
        );
        pod.copy("spec.nodeName", &json!({}));
        pod.default_to("spec.schedulerName", "s");
        assert_eq!(
            pod,
            json!({"metadata": {"labels": {"a": "b"}}, "spec": {"schedulerName": "s"}})
        );
    }
}
