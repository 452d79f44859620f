//! Deployment: one ReplicaSet for its current template, the others scaled to zero. Rolls out at once, whatever the
//! strategy.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::Controllers;
use super::owned::{belongs_to, is_leaving};
use crate::mirror::Key;

const HASH: &str = "pod-template-hash";

impl Controllers {
    pub(super) async fn look_at_deployment(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(deployment) = self.deployments.get(key).filter(|d| !is_leaving(&**d)) else {
            return Ok(());
        };
        let spec = &deployment.spec;
        let uid = deployment.uid().unwrap_or_default();
        let wanted = spec.replicas.unwrap_or(1);
        let hash = hash_of(&json!(spec.template));
        let name = format!("{}-{hash}", key.name);
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut sets = self.replica_sets.in_namespace(&key.namespace);
        sets.retain(|set| belongs_to(&**set, &uid));
        if !sets.iter().any(|set| set.name_any() == name) {
            let set = replica_set(&deployment, &name, &hash, wanted)?;
            let made = api.create(&PostParams::default(), &set).await?;
            self.replica_sets.catch_up(&made).await;
        }
        for set in &sets {
            let want = if set.name_any() == name { wanted } else { 0 };
            if set.spec.replicas != Some(want) {
                let patch = Patch::Merge(json!({"spec": {"replicas": want}}));
                let params = PatchParams::default();
                let set = api.patch(&set.name_any(), &params, &patch).await?;
                self.replica_sets.catch_up(&set).await;
            }
        }
        self.report_deployment(&deployment, &name, wanted).await
    }

    async fn report_deployment(
        &self,
        deployment: &Deployment,
        current: &str,
        wanted: i32,
    ) -> Result<(), kube::Error> {
        let uid = deployment.uid().unwrap_or_default();
        let mut sets = self
            .replica_sets
            .in_namespace(&deployment.namespace().unwrap_or_default());
        sets.retain(|set| belongs_to(&**set, &uid));
        let count = |of: fn(&k8s_openapi::api::apps::v1::ReplicaSetStatus) -> i32,
                     only: Option<&str>| {
            let chosen = sets
                .iter()
                .filter(|set| only.is_none_or(|name| set.name_any() == name));
            chosen
                .filter_map(|set| set.status.as_ref().map(of))
                .sum::<i32>()
        };
        let ready = count(|status| status.ready_replicas.unwrap_or(0), None);
        let available = ready >= wanted;
        let condition = |kind: &str, holds: bool, reason: &str| {
            json!({
                "type": kind, "status": if holds { "True" } else { "False" }, "reason": reason,
                "message": "",
            })
        };
        let reason = if available {
            "MinimumReplicasAvailable"
        } else {
            "MinimumReplicasUnavailable"
        };
        let status = json!({
            "observedGeneration": deployment.metadata.generation,
            "replicas": count(|status| status.replicas, None),
            "updatedReplicas": count(|status| status.replicas, Some(current)),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": (wanted - ready).max(0),
            "conditions": [
                condition("Available", available, reason),
                condition("Progressing", true, "NewReplicaSetAvailable"),
            ],
        });
        self.write_status(deployment, status).await
    }
}

/// A hash of the template that is used in names; equal templates have equal hashes.
fn hash_of(template: &Value) -> String {
    let mut hasher = DefaultHasher::new();
    template.to_string().hash(&mut hasher);
    format!("{:010x}", hasher.finish() & 0xff_ffff_ffff)
}

fn replica_set(
    deployment: &Deployment,
    name: &str,
    hash: &str,
    replicas: i32,
) -> Result<ReplicaSet, kube::Error> {
    use kube::Resource as _;
    let spec = deployment.spec.clone();
    let with_hash = |labels: Option<std::collections::BTreeMap<String, String>>| {
        let mut labels = labels.unwrap_or_default();
        labels.insert(HASH.to_owned(), hash.to_owned());
        labels
    };
    let mut template = spec.template;
    let mut metadata = template.metadata.unwrap_or_default();
    metadata.labels = Some(with_hash(metadata.labels));
    let labels = metadata.labels.clone();
    template.metadata = Some(metadata);
    let mut selector = spec.selector;
    selector.match_labels = Some(with_hash(selector.match_labels));
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": labels,
            "ownerReferences": [deployment.controller_owner_ref(&())],
        },
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }))
    .map_err(kube::Error::SerdeError)
}
