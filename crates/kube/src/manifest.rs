//! Manifests as people write them, and the pod or pod template in them.

use serde_json::Value;
use thiserror::Error;

use crate::slim;

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("it is not a YAML manifest: {0}")]
    Yaml(String),
    #[error("it has no containers; give the manifest of a pod, deployment or job")]
    NoContainers,
    #[error("{0} of its documents have containers; give one at a time")]
    Several(usize),
    #[error("it is not a valid pod: {0}")]
    Pod(serde_json::Error),
}

/// An object with a pod in it: the pod itself, or a workload with its template.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub object: Value,
    /// Where in the object the pod is, as a JSON pointer; empty when the object is the pod.
    pub path: &'static str,
}

const TEMPLATES: [&str; 2] = ["/spec/jobTemplate/spec/template", "/spec/template"];

impl Manifest {
    /// Of several documents, the one that has containers.
    pub fn read(text: &str) -> Result<Self, ManifestError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text)
            .map_err(|error| ManifestError::Yaml(error.to_string()))?;
        let mut found: Vec<Self> = documents.into_iter().filter_map(Self::of).collect();
        match found.len() {
            0 => Err(ManifestError::NoContainers),
            1 => Ok(found.remove(0)),
            several => Err(ManifestError::Several(several)),
        }
    }

    /// `None` if it has no containers.
    pub fn of(object: Value) -> Option<Self> {
        let has_template = |path: &&str| object.pointer(path).is_some();
        let path = TEMPLATES.into_iter().find(has_template).unwrap_or("");
        let containers = object.pointer(path)?.pointer("/spec/containers");
        containers.is_some().then_some(())?;
        Some(Self { object, path })
    }

    /// The pod or pod template, with `metadata` and `spec` as in a pod's manifest.
    pub fn pod(&self) -> &Value {
        self.object.pointer(self.path).unwrap_or(&Value::Null)
    }

    /// The pod as gpushare reads it.
    pub fn slim_pod(&self) -> Result<slim::Pod, ManifestError> {
        serde_json::from_value(self.pod().clone()).map_err(ManifestError::Pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pod_is_found_beside_other_objects() {
        let text = "
kind: Service
spec: {ports: [{port: 80}]}
---
kind: CronJob
spec: {jobTemplate: {spec: {template: {spec: {containers: [{name: c}]}}}}}
";
        let manifest = Manifest::read(text).unwrap();
        assert_eq!(manifest.path, "/spec/jobTemplate/spec/template");
        assert_eq!(
            manifest.pod().pointer("/spec/containers/0/name").unwrap(),
            "c"
        );
    }

    #[test]
    fn two_pods_are_one_too_many() {
        let text = "spec: {containers: []}\n---\nspec: {containers: []}\n";
        let error = Manifest::read(text).unwrap_err();
        assert!(matches!(error, ManifestError::Several(2)), "{error}");
        let error = Manifest::read("kind: Service\n").unwrap_err();
        assert!(matches!(error, ManifestError::NoContainers), "{error}");
    }
}
