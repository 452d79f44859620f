//! Just enough OpenAPI for two uses. kubectl learns that it can leave validation to the server: which kinds can be
//! patched, and that the patch takes `fieldValidation`. `kubectl explain` shows the schemas that the caller gave, and
//! for all other kinds where to read about them.

use hyper::Response;
use serde_json::{Map, Value, json};

use super::reply::{Body, body_reply};
use crate::registry::Registry;
use crate::resource::Resource;

/// What `kubectl explain` shows for a kind without a schema.
const ELSEWHERE: &str = "This embedded API server serves the kind but carries no description of its fields. \
    They are those of Kubernetes: https://kubernetes.io/docs/reference/kubernetes-api/";

/// The schema that the caller gave for a kind.
#[derive(Debug, Clone)]
pub(crate) struct KindSchema {
    pub(crate) group: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) schema: Value,
}

/// The available documents, one per group and version.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for resource in registry.resources() {
        let path = root(resource);
        let document = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        paths.insert(path, document);
    }
    json!({"paths": paths})
}

pub(crate) fn group(
    registry: &Registry,
    described: &[KindSchema],
    group: &str,
    version: &str,
) -> Value {
    let (mut paths, mut schemas) = (Map::new(), Map::new());
    let of_group = registry
        .resources()
        .filter(|r| r.group == group && r.version == version);
    for resource in of_group {
        let middle = if resource.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let path = format!("/{}{middle}/{}/{{name}}", root(resource), resource.plural);
        paths.insert(path, json!({"patch": patch_operation(resource)}));
        schemas.insert(resource.kind.to_owned(), schema(resource, described));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "embedded", "version": "1"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

/// kubectl looks up unknown kinds in the older OpenAPI v2 document, which is protobuf. It can report that there is no
/// such kind only if it can read that document. This one has version 2.0, a title, a version and no definitions.
pub(crate) fn nothing_in_v2() -> Response<Body> {
    const KIND: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    const EMPTY: &[u8] = b"\x0a\x032.0\x12\x0d\x0a\x08embedded\x12\x011";
    body_reply(200, KIND, EMPTY)
}

fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("{prefix}/{}", resource.api_version())
}

fn schema(resource: &Resource, described: &[KindSchema]) -> Value {
    let given = described
        .iter()
        .find(|given| (given.group, given.kind) == (resource.group, resource.kind));
    let mut schema = match given {
        Some(given) => given.schema.clone(),
        None => json!({"type": "object", "description": ELSEWHERE}),
    };
    if let Value::Object(schema) = &mut schema {
        let kinds = json!([kind(resource)]);
        schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds);
    }
    schema
}

fn kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

fn patch_operation(resource: &Resource) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter);
    json!({
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": kind(resource),
        "parameters": parameters,
        "responses": {},
    })
}
