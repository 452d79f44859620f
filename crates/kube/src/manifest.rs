//! Manifests as people write them: the pod in one, or in its template.

use serde_json::Value;
use thiserror::Error;

use crate::slim;

#[derive(Debug, Error)]
pub enum ManifestError {
    #[error("it is no YAML manifest: {0}")]
    Yaml(String),
    #[error("it has no containers; give the manifest of a pod, deployment or job")]
    NoContainers,
    #[error("it is no valid pod: {0}")]
    Pod(serde_json::Error),
}

/// The pod of a manifest, or of the template in it.
pub fn pod(text: &str) -> Result<slim::Pod, ManifestError> {
    let manifest: Value =
        serde_saphyr::from_str(text).map_err(|error| ManifestError::Yaml(error.to_string()))?;
    let templates = ["/spec/jobTemplate/spec/template", "/spec/template"];
    let template = templates.iter().find_map(|path| manifest.pointer(path));
    let pod = template.unwrap_or(&manifest);
    if pod.pointer("/spec/containers").is_none() {
        return Err(ManifestError::NoContainers);
    }
    serde_json::from_value(pod.clone()).map_err(ManifestError::Pod)
}
