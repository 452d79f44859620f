//! The scale of a workload: its number of replicas as an object of its own, for `kubectl scale` and autoscalers.

use hyper::Response;
use serde_json::{Value, json};

use super::handler::Request;
use super::reply::{Body, json_reply};
use crate::failure::Failure;
use crate::json::Path;
use crate::patch::{Patch, patched};
use crate::request::Verb;
use crate::rules::Part;

impl Request<'_> {
    pub(super) fn scale(&self) -> Result<Response<Body>, Failure> {
        let object = self.registry.get(&self.route.target)?;
        let current = scale_of(object.value());
        let wanted = match self.route.verb {
            Verb::Patch => {
                let patch = Patch::parse(self.content_type(), &self.body, false)?;
                patched(&patch, &current)?
            }
            Verb::Update => self.action_body("Scale", "autoscaling/v1")?,
            _ => return Ok(json_reply(200, current.to_string())),
        };
        let replicas = wanted.int("spec.replicas").unwrap_or(0);
        let change = json!({"spec": {"replicas": replicas}}).to_string();
        let patch = Patch::parse("application/merge-patch+json", change.as_bytes(), false)?;
        let write = self.write(Part::Main, false)?;
        let written = self.registry.patch(&self.route.target, &patch, &write)?;
        Ok(json_reply(
            200,
            scale_of(written.object.value()).to_string(),
        ))
    }
}

fn scale_of(object: &Value) -> Value {
    let labels = object
        .map("spec.selector.matchLabels")
        .into_iter()
        .flatten();
    let selector: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        metadata.put(field, object.text(&format!("metadata.{field}")));
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": object.int("spec.replicas").unwrap_or(0)},
        "status": {
            "replicas": object.int("status.replicas").unwrap_or(0),
            "selector": selector.join(","),
        },
    })
}
