//! From a request body to an object of the expected kind, in canonical form.

use serde_json::{Map, Value};

use super::{Target, UnknownFields};
use crate::failure::{Cause, Failure};
use crate::json::Path;
use crate::protobuf;
use crate::resource::Resource;
use crate::typed;

/// An object as decoded, with warnings about what was dropped.
#[derive(Debug)]
pub(crate) struct DecodedObject {
    pub(crate) value: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads a body that must hold one object of the resource's kind.
pub(crate) fn decode_body(
    resource: &Resource,
    body: &[u8],
    content_type: &str,
    unknown: UnknownFields,
) -> Result<DecodedObject, Failure> {
    let value = parse(body, content_type).map_err(|why| {
        let kind = resource.kind;
        Failure::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why}"
        ))
    })?;
    decode(resource, value, unknown)
}

/// Reads JSON, or the format given by the content type.
pub(crate) fn parse(body: &[u8], content_type: &str) -> Result<Value, String> {
    let value = match content_type {
        "application/yaml" => typed::parse_yaml(body)?,
        protobuf::CONTENT_TYPE => protobuf::parse(body)?,
        _ => serde_json::from_slice(body).map_err(|e| format!("couldn't get version/kind: {e}"))?,
    };
    match value {
        Value::Object(_) => Ok(value),
        Value::Null => Ok(Value::Object(Map::new())),
        _ => Err("couldn't get version/kind: not a JSON object".to_owned()),
    }
}

/// Checks kind and version, fills them in where missing, and brings the object into canonical form.
pub(crate) fn decode(
    resource: &Resource,
    mut value: Value,
    unknown: UnknownFields,
) -> Result<DecodedObject, Failure> {
    let kind = value.text("kind").to_owned();
    let version = value.text("apiVersion").to_owned();
    if !kind.is_empty() && kind != resource.kind {
        let message = format!(
            "{kind} in version {version:?} cannot be handled as a {}: unknown conversion",
            resource.kind
        );
        return Err(Failure::bad_request(message));
    }
    if !version.is_empty() && version != resource.api_version() {
        let message = format!(
            "the API version in the data ({version}) does not match the expected API version ({})",
            resource.api_version()
        );
        return Err(Failure::bad_request(message));
    }
    value.put("kind", resource.kind);
    value.put("apiVersion", resource.api_version());
    let canonical = typed::canonical(resource, value).map_err(|why| {
        let (kind, version) = (resource.kind, resource.version);
        Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    })?;
    let warnings = judge_unknown(&canonical.unknown, unknown).map_err(|why| {
        let (kind, version) = (resource.kind, resource.version);
        Failure::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
        ))
    })?;
    Ok(DecodedObject {
        value: canonical.value,
        warnings,
    })
}

/// The same for an object that a patch has produced; a wrong shape is then the patch's fault, a 422.
pub(super) fn decode_patched(
    resource: &Resource,
    value: Value,
    unknown: UnknownFields,
) -> Result<DecodedObject, Failure> {
    let name = value.text("metadata.name").to_owned();
    let refuse = |why: &str| {
        let cause = Cause::invalid("patch", &name.as_str().into(), why);
        Failure::invalid_kind("", "", "", vec![cause])
    };
    let kind_changed =
        value.text("kind") != resource.kind || value.text("apiVersion") != resource.api_version();
    if kind_changed {
        return Err(refuse(
            "a patch cannot change the kind or version of an object",
        ));
    }
    let canonical = typed::canonical(resource, value).map_err(|why| refuse(&why))?;
    let warnings = judge_unknown(&canonical.unknown, unknown).map_err(|why| refuse(&why))?;
    Ok(DecodedObject {
        value: canonical.value,
        warnings,
    })
}

fn judge_unknown(fields: &[String], unknown: UnknownFields) -> Result<Vec<String>, String> {
    let named = fields
        .iter()
        .map(|field| format!("unknown field {field:?}"));
    match unknown {
        UnknownFields::Refuse if !fields.is_empty() => Err(format!(
            "strict decoding error: {}",
            named.collect::<Vec<_>>().join(", ")
        )),
        UnknownFields::Warn => Ok(named.collect()),
        _ => Ok(Vec::new()),
    }
}

/// Sets the namespace of the request, or refuses an object that names another one.
pub(super) fn settle_namespace(target: &Target<'_>, value: &mut Value) -> Result<(), Failure> {
    let own = value.text("metadata.namespace");
    if own.is_empty() {
        if target.resource().namespaced {
            value.put("metadata.namespace", target.namespace.as_str());
        }
        return Ok(());
    }
    if own == target.namespace {
        return Ok(());
    }
    if !target.resource().namespaced {
        // A namespace on a cluster-scoped object is ignored.
        value.remove("metadata.namespace");
        return Ok(());
    }
    Err(Failure::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// The name in the body must be the name in the path.
pub(super) fn settle_name(target: &Target<'_>, value: &Value) -> Result<(), Failure> {
    let own = value.text("metadata.name");
    if own == target.name {
        return Ok(());
    }
    Err(Failure::bad_request(format!(
        "the name of the object ({own}) does not match the name on the URL ({})",
        target.name
    )))
}
