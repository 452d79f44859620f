//! Just enough OpenAPI that kubectl finds out it can leave validation to the server: which kinds can be patched, and
//! that the patch takes `fieldValidation`. No schemas.

use serde_json::{Map, Value, json};

use crate::registry::Registry;
use crate::resource::Resource;

/// The documents there are, one per group and version.
pub(crate) fn index(registry: &Registry) -> Value {
    let mut paths = Map::new();
    for resource in registry.resources() {
        let path = root(resource);
        let document = json!({"serverRelativeURL": format!("/openapi/v3/{path}")});
        paths.insert(path, document);
    }
    json!({"paths": paths})
}

pub(crate) fn group(registry: &Registry, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
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
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "embedded", "version": "1"},
        "paths": paths,
        "components": {"schemas": {}},
    })
}

fn root(resource: &Resource) -> String {
    let prefix = if resource.group.is_empty() {
        "api"
    } else {
        "apis"
    };
    format!("{prefix}/{}", resource.api_version())
}

fn patch_operation(resource: &Resource) -> Value {
    let parameter = |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string"}});
    let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"].map(parameter);
    json!({
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": {
            "group": resource.group,
            "version": resource.version,
            "kind": resource.kind,
        },
        "parameters": parameters,
        "responses": {},
    })
}
