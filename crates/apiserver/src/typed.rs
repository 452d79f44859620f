//! The shape of built-in kinds: an object is converted to its Rust type and back, which drops unknown fields, refuses
//! wrong types, and brings quantities into the spelling that the real server stores. Custom resources stay unchanged.

use k8s_openapi::api::{
    admissionregistration, apps, batch, coordination, core, events, node, policy, scheduling,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::quantity::Quantity;
use crate::resource::Resource;
use crate::schema::{MAPS, QUANTITIES, QUANTITY_MAPS};

/// An object in its canonical form, and the fields that were not part of its type.
#[derive(Debug)]
pub(crate) struct Canonical {
    pub(crate) value: Value,
    pub(crate) unknown: Vec<String>,
}

/// Brings an object of a built-in kind into canonical form. The error says what is wrong, for a 400.
pub(crate) fn canonical(resource: &Resource, mut value: Value) -> Result<Canonical, String> {
    let Some(through) = shape(resource) else {
        return Ok(Canonical {
            value,
            unknown: Vec::new(),
        });
    };
    canonical_quantities(&mut value)?;
    let mut typed = through(&value)?;
    let mut unknown = Vec::new();
    lost("", &value, &typed, &mut unknown);
    drop_empty(&mut typed);
    Ok(Canonical {
        value: typed,
        unknown,
    })
}

type Shape = fn(&Value) -> Result<Value, String>;

fn shape(resource: &Resource) -> Option<Shape> {
    let shape: Shape = match (resource.group, resource.kind) {
        ("", "Namespace") => through::<core::v1::Namespace>,
        ("", "Node") => through::<core::v1::Node>,
        ("", "Pod") => through::<core::v1::Pod>,
        ("", "Event") => through::<core::v1::Event>,
        ("", "ConfigMap") => through::<core::v1::ConfigMap>,
        ("", "Secret") => through::<core::v1::Secret>,
        ("", "PersistentVolumeClaim") => through::<core::v1::PersistentVolumeClaim>,
        ("", "Service") => through::<core::v1::Service>,
        ("", "ServiceAccount") => through::<core::v1::ServiceAccount>,
        ("", "ResourceQuota") => through::<core::v1::ResourceQuota>,
        ("apps", "Deployment") => through::<apps::v1::Deployment>,
        ("apps", "ReplicaSet") => through::<apps::v1::ReplicaSet>,
        ("apps", "StatefulSet") => through::<apps::v1::StatefulSet>,
        ("apps", "DaemonSet") => through::<apps::v1::DaemonSet>,
        ("batch", "Job") => through::<batch::v1::Job>,
        ("batch", "CronJob") => through::<batch::v1::CronJob>,
        ("coordination.k8s.io", "Lease") => through::<coordination::v1::Lease>,
        ("node.k8s.io", "RuntimeClass") => through::<node::v1::RuntimeClass>,
        ("policy", "PodDisruptionBudget") => through::<policy::v1::PodDisruptionBudget>,
        ("scheduling.k8s.io", "PriorityClass") => through::<scheduling::v1::PriorityClass>,
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            through::<admissionregistration::v1::MutatingWebhookConfiguration>
        }
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            through::<admissionregistration::v1::ValidatingWebhookConfiguration>
        }
        ("events.k8s.io", "Event") => through::<events::v1::Event>,
        _ => return None,
    };
    Some(shape)
}

/// Whether the kind is built in. Only built-in kinds define how their lists merge, which strategic merge patches need.
pub(crate) fn is_built_in(resource: &Resource) -> bool {
    shape(resource).is_some()
}

fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Result<Value, String> {
    let typed = T::deserialize(value).map_err(|e| e.to_string())?;
    serde_json::to_value(typed).map_err(|e| e.to_string())
}

/// Fields present in what was sent and absent from the typed form.
fn lost(path: &str, sent: &Value, kept: &Value, unknown: &mut Vec<String>) {
    match (sent, kept) {
        (Value::Object(sent), Value::Object(kept)) => {
            for (key, value) in sent {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                match kept.get(key) {
                    Some(kept) => lost(&path, value, kept, unknown),
                    None if value.is_null() => {}
                    None => unknown.push(path),
                }
            }
        }
        (Value::Array(sent), Value::Array(kept)) => {
            for (index, (sent, kept)) in sent.iter().zip(kept).enumerate() {
                lost(&format!("{path}[{index}]"), sent, kept, unknown);
            }
        }
        _ => {}
    }
}

fn canonical_quantities(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(map) => {
            for (key, field) in map {
                if QUANTITY_MAPS.contains(&key.as_str()) {
                    for quantity in field.as_object_mut().into_iter().flat_map(Map::values_mut) {
                        canonical_quantity(quantity)?;
                    }
                } else if QUANTITIES.contains(&key.as_str()) {
                    canonical_quantity(field)?;
                }
                // The data of a ConfigMap or Secret holds texts, never structure.
                if key != "data" {
                    canonical_quantities(field)?;
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                canonical_quantities(item)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn canonical_quantity(value: &mut Value) -> Result<(), String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return Ok(()),
    };
    *value = Quantity::parse(&text)
        .map_err(|e| e.to_string())?
        .canonical()
        .into();
    Ok(())
}

/// Empty lists and maps are not shown by the API.
fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, field| {
                drop_empty(field);
                match field {
                    Value::Array(items) => !items.is_empty() || key == "containers",
                    Value::Object(inner) => !inner.is_empty() || !MAPS.contains(&key.as_str()),
                    _ => true,
                }
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

/// JSON or YAML, as apply and `kubectl create` may send.
pub(crate) fn parse_yaml(body: &[u8]) -> Result<Value, String> {
    if let Ok(value) = serde_json::from_slice(body) {
        return Ok(value);
    }
    let text = std::str::from_utf8(body).map_err(|e| e.to_string())?;
    serde_saphyr::from_str(text).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::BUILT_IN;

    fn pods() -> &'static Resource {
        BUILT_IN.iter().find(|r| r.kind == "Pod").unwrap()
    }

    #[test]
    fn every_built_in_row_has_a_shape() {
        for resource in BUILT_IN {
            assert!(is_built_in(resource), "{}", resource.qualified());
        }
    }

    #[test]
    fn unknown_fields_are_dropped_and_named_and_quantities_normalised() {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "labels": {}, "creationTimestamp": null},
            "spec": {"colour": "red", "containers": [{
                "name": "c",
                "resources": {"limits": {"cpu": 1, "example.com/mem": "3000"}},
            }]},
        });
        let canonical = canonical(pods(), pod).unwrap();
        assert_eq!(canonical.unknown, ["spec.colour"]);
        assert_eq!(
            canonical.value,
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "p"},
                "spec": {"containers": [{
                    "name": "c",
                    "resources": {"limits": {"cpu": "1", "example.com/mem": "3k"}},
                }]},
            })
        );
    }

    #[test]
    fn wrong_types_are_refused() {
        for spec in [
            json!({"containers": "none"}),
            json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "lots"}}}]}),
        ] {
            let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec});
            assert!(canonical(pods(), pod).is_err());
        }
    }

    #[test]
    fn yaml_and_json_bodies_are_both_read() {
        assert_eq!(parse_yaml(b"{\"a\": 1}").unwrap(), json!({"a": 1}));
        assert_eq!(
            parse_yaml(b"a:\n- x\n- y: 2\n").unwrap(),
            json!({"a": ["x", {"y": 2}]})
        );
        assert!(parse_yaml(b"a: [").is_err());
    }
}
