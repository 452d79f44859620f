//! ReplicaSet: as many pods as it asks for.

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use super::Controllers;
use super::owned::{PodNaming, is_active, is_leaving, is_ready};
use crate::mirror::Key;

impl Controllers {
    pub(super) async fn look_at_replica_set(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(set) = self.replica_sets.get(key).filter(|set| !is_leaving(&**set)) else {
            return Ok(());
        };
        let spec = &set.spec;
        let uid = set.uid().unwrap_or_default();
        let wanted = usize::try_from(spec.replicas.unwrap_or(1)).unwrap_or(0);
        let mut active = self.pods_of(&key.namespace, &uid);
        active.retain(|pod| is_active(pod));
        let mut refused = None;
        if let Some(template) = &spec.template {
            for _ in active.len()..wanted {
                let naming = PodNaming::After(format!("{}-", key.name));
                match self.create_pod(&*set, template, naming, &json!({})).await {
                    Ok(()) => {}
                    Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                        refused = Some(status.message.clone());
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        // Pods that are not ready are deleted first, then the youngest.
        active.sort_by_key(|pod| (is_ready(pod), age(pod)));
        let spare = active.len().saturating_sub(wanted);
        for pod in active.iter().take(spare) {
            self.delete_pod(pod).await?;
        }
        let mut pods = self.pods_of(&key.namespace, &uid);
        pods.retain(|pod| is_active(pod));
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let conditions = refused.map(|message| {
            json!([{
                "type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
                "message": message,
            }])
        });
        let status = json!({
            "observedGeneration": set.metadata.generation,
            "replicas": pods.len(),
            "fullyLabeledReplicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "conditions": conditions,
        });
        self.write_status(&*set, status).await
    }
}

/// Larger for older pods.
fn age(pod: &Pod) -> i64 {
    let created = pod.metadata.creation_timestamp.as_ref();
    created.map_or(0, |time| -time.0.as_second())
}
