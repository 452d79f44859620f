//! The patch formats of the API, each as a pure function from the current object to the desired one.
//! The registry decides what may then be written; nothing here knows the store or HTTP.

mod apply;
mod json;
mod strategic;

pub(crate) use apply::{Applied, apply};

use serde_json::Value;

use crate::failure::Failure;

/// A patch as sent; the content type gives its format.
#[derive(Debug, Clone)]
pub(crate) enum Patch {
    Merge(Value),
    Strategic(Value),
    Json(json_patch::Patch),
    Apply { config: Value, force: bool },
}

/// The formats the API accepts, as it lists them in a refusal.
pub(crate) const CONTENT_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

impl Patch {
    pub(crate) fn parse(content_type: &str, body: &[u8], force: bool) -> Result<Self, Failure> {
        match content_type {
            "application/json-patch+json" => json::parse(body).map(Self::Json),
            "application/merge-patch+json" => parse_object(body).map(Self::Merge),
            "application/strategic-merge-patch+json" => parse_object(body).map(Self::Strategic),
            "application/apply-patch+yaml" => {
                parse_yaml(body).map(|config| Self::Apply { config, force })
            }
            _ => Err(Failure::unsupported_media_type(&CONTENT_TYPES.join(", "))),
        }
    }
}

/// Applies a merge, strategic or JSON patch.
pub(crate) fn patched(patch: &Patch, current: &Value) -> Result<Value, Failure> {
    match patch {
        Patch::Merge(patch) => {
            let mut value = current.clone();
            json_patch::merge(&mut value, patch);
            Ok(value)
        }
        Patch::Strategic(patch) => strategic::merged(current, patch),
        Patch::Json(patch) => json::patched(current, patch),
        Patch::Apply { .. } => Err(Failure::internal("apply needs the field managers")),
    }
}

fn parse_object(body: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|e| Failure::bad_request(format!("error decoding patch: {e}")))?;
    if value.is_object() {
        return Ok(value);
    }
    Err(Failure::bad_request(
        "error decoding patch: a merge patch must be a JSON object",
    ))
}

fn parse_yaml(body: &[u8]) -> Result<Value, Failure> {
    crate::typed::parse_yaml(body)
        .map_err(|e| Failure::bad_request(format!("error decoding YAML: {e}")))
        .and_then(|value| match value {
            Value::Object(_) => Ok(value),
            _ => Err(Failure::bad_request(
                "error decoding YAML: an object is expected",
            )),
        })
}
