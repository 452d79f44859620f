//! What the server reports about itself: health, version, and which resources it serves.

use std::collections::BTreeMap;

use hyper::{Method, Response};
use serde_json::{Value, json};

use super::openapi::{self, KindSchema};
use super::reply::{Body, json_reply, text_reply};
use crate::registry::Registry;
use crate::resource::{Resource, Subresource};

/// The Kubernetes release whose behaviour is reproduced.
const MINOR: &str = "36";

pub(crate) fn document(
    registry: &Registry,
    described: &[KindSchema],
    method: &Method,
    path: &[String],
) -> Response<Body> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    if method != Method::GET {
        return text_reply(405, "method not allowed");
    }
    let found = match path.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => return text_reply(200, "ok"),
        ["openapi", "v2"] => return openapi::nothing_in_v2(),
        ["version"] => Some(version()),
        ["api"] => Some(core_versions()),
        ["api", "v1"] => resource_list(registry, "", "v1"),
        ["apis"] => Some(groups(registry)),
        ["apis", group] => one_group(registry, group),
        ["apis", group, version] => resource_list(registry, group, version),
        ["openapi", "v3"] => Some(openapi::index(registry)),
        ["openapi", "v3", "api", "v1"] => Some(openapi::group(registry, described, "", "v1")),
        ["openapi", "v3", "apis", group, version] => {
            Some(openapi::group(registry, described, group, version))
        }
        [] => Some(json!({"paths": ["/api", "/apis", "/healthz", "/openapi/v3", "/version"]})),
        _ => None,
    };
    match found {
        Some(document) => json_reply(200, document.to_string()),
        None => text_reply(404, "404 page not found\n"),
    }
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": MINOR,
        "gitVersion": format!("v1.{MINOR}.0+gpushare-embedded"),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// Groups with their versions, in order of name.
fn group_versions(registry: &Registry) -> BTreeMap<&str, Vec<&str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for resource in registry.resources().filter(|r| !r.group.is_empty()) {
        let versions = groups.entry(resource.group).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version);
        }
    }
    groups
}

fn group_json(name: &str, versions: &[&str]) -> Value {
    let entry = |v: &&str| json!({"groupVersion": format!("{name}/{v}"), "version": v});
    json!({
        "name": name,
        "versions": versions.iter().map(entry).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(entry),
    })
}

fn groups(registry: &Registry) -> Value {
    let groups = group_versions(registry);
    let groups: Vec<Value> = groups.iter().map(|(name, v)| group_json(name, v)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn one_group(registry: &Registry, group: &str) -> Option<Value> {
    let groups = group_versions(registry);
    let mut found = group_json(group, groups.get(group)?);
    if let Value::Object(map) = &mut found {
        map.insert("kind".to_owned(), "APIGroup".into());
        map.insert("apiVersion".to_owned(), "v1".into());
    }
    Some(found)
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> Option<Value> {
    let of_group: Vec<&Resource> = registry
        .resources()
        .filter(|r| r.group == group && r.version == version)
        .collect();
    let first = of_group.first()?;
    let mut resources: Vec<Value> = of_group.iter().flat_map(|r| resource_json(r)).collect();
    if group.is_empty() {
        resources.push(json!({
            "name": "bindings",
            "singularName": "binding",
            "namespaced": true,
            "kind": "Binding",
            "verbs": ["create"],
        }));
    }
    Some(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": first.api_version(),
        "resources": resources,
    }))
}

fn resource_json(resource: &Resource) -> Vec<Value> {
    let mut verbs = vec![
        "create", "delete", "get", "list", "patch", "update", "watch",
    ];
    if resource.kind != "Namespace" {
        verbs.insert(2, "deletecollection");
    }
    let main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
        "shortNames": resource.short_names,
        "categories": resource.categories,
    });
    let parts = resource.subresources.iter().map(|sub| {
        let (kind, group, version, verbs) = match sub {
            Subresource::Status => (resource.kind, "", "", &["get", "patch", "update"][..]),
            Subresource::Finalize => (resource.kind, "", "", &["update"][..]),
            Subresource::Log => (resource.kind, "", "", &["get"][..]),
            Subresource::Scale => (
                "Scale",
                "autoscaling",
                "v1",
                &["get", "patch", "update"][..],
            ),
            Subresource::Binding => ("Binding", "", "", &["create"][..]),
            Subresource::Eviction => ("Eviction", "policy", "v1", &["create"][..]),
            Subresource::Token => (
                "TokenRequest",
                "authentication.k8s.io",
                "v1",
                &["create"][..],
            ),
        };
        let mut part = json!({
            "name": format!("{}/{}", resource.plural, sub.name()),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": kind,
            "verbs": verbs,
        });
        if let Value::Object(map) = &mut part
            && !version.is_empty()
        {
            map.insert("group".to_owned(), group.into());
            map.insert("version".to_owned(), version.into());
        }
        part
    });
    std::iter::once(main).chain(parts).collect()
}
