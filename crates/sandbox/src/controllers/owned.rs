//! Ownership: owner references, and pods made from a template.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Controllers, Work};
use crate::mirror::Key;

/// The owner that must be reconciled when this object changes.
pub(super) fn controller_of<K: Resource>(object: &K) -> Option<Work> {
    let owners = object.meta().owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.controller == Some(true))?;
    let key = Key {
        namespace: object.meta().namespace.clone().unwrap_or_default(),
        name: owner.name.clone(),
    };
    match owner.kind.as_str() {
        "Deployment" => Some(Work::Deployment(key)),
        "ReplicaSet" => Some(Work::ReplicaSet(key)),
        "StatefulSet" => Some(Work::StatefulSet(key)),
        "Job" => Some(Work::Job(key)),
        _ => None,
    }
}

pub(super) fn belongs_to<K: Resource>(object: &K, uid: &str) -> bool {
    let mut owners = object.meta().owner_references.iter().flatten();
    owners.any(|owner| owner.uid == uid)
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status
        .and_then(|s| s.conditions.as_ref())
        .into_iter()
        .flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(super) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// Whether the pod counts: it has not ended and is not being deleted.
pub(super) fn is_active(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase(pod), "Succeeded" | "Failed")
}

pub(super) fn is_leaving<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// How a pod made from a template is named.
#[derive(Clone, Debug)]
pub(super) enum PodNaming {
    After(String),
    Exactly(String),
}

impl Controllers {
    pub(super) fn pods_of(&self, namespace: &str, uid: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.in_namespace(namespace);
        pods.retain(|pod| belongs_to(&**pod, uid));
        pods
    }

    /// Makes a pod from a template. Returns refusals, so that the caller can show them in the owner's conditions.
    pub(super) async fn create_pod<O: Resource<DynamicType = ()>>(
        &self,
        owner: &O,
        template: &PodTemplateSpec,
        naming: PodNaming,
        labels: &Value,
    ) -> Result<(), kube::Error> {
        let mut metadata = json!({
            "labels": template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
            "annotations": template.metadata.as_ref().and_then(|meta| meta.annotations.clone()),
            "ownerReferences": [owner.controller_owner_ref(&())],
        });
        if let (Some(own), Some(more)) = (metadata.get_mut("labels"), labels.as_object()) {
            if own.is_null() {
                *own = json!({});
            }
            if let Some(own) = own.as_object_mut() {
                own.extend(more.clone());
            }
        }
        if let Some(metadata) = metadata.as_object_mut() {
            match naming {
                PodNaming::After(prefix) => {
                    metadata.insert("generateName".to_owned(), prefix.into())
                }
                PodNaming::Exactly(name) => metadata.insert("name".to_owned(), name.into()),
            };
        }
        let pod = json!({"metadata": metadata, "spec": template.spec});
        let pod: Pod = serde_json::from_value(pod).map_err(kube::Error::SerdeError)?;
        let namespace = owner.meta().namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let created = pods.create(&PostParams::default(), &pod).await?;
        self.pods.catch_up(&created).await;
        Ok(())
    }

    pub(super) async fn delete_pod(&self, pod: &Pod) -> Result<(), kube::Error> {
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        match pods.delete(&pod.name_any(), &DeleteParams::default()).await {
            Ok(either) => {
                if let Some(pod) = either.left() {
                    self.pods.catch_up(&pod).await;
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes a status, unless the object is gone by now.
    pub(super) async fn write_status<K>(&self, object: &K, status: Value) -> Result<(), kube::Error>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let namespace = object.meta().namespace.clone().unwrap_or_default();
        let api: Api<K> = Api::namespaced(self.client.clone(), &namespace);
        let name = object.meta().name.clone().unwrap_or_default();
        let patch = Patch::Merge(json!({ "status": status }));
        match api
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other.map(drop),
        }
    }
}
