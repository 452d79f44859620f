//! StatefulSet: numbered pods, started one after the other unless the policy is Parallel. Creates no volumes.

use kube::ResourceExt;
use serde_json::json;

use super::Controllers;
use super::owned::{PodNaming, is_leaving, is_ready, phase};
use crate::mirror::Key;

impl Controllers {
    pub(super) async fn look_at_stateful_set(&self, key: &Key) -> Result<(), kube::Error> {
        let Some(set) = self
            .stateful_sets
            .get(key)
            .filter(|set| !is_leaving(&**set))
        else {
            return Ok(());
        };
        let spec = &set.spec;
        let uid = set.uid().unwrap_or_default();
        let wanted = spec.replicas.unwrap_or(1);
        let parallel = spec.pod_management_policy.as_deref() == Some("Parallel");
        let pods = self.pods_of(&key.namespace, &uid);
        let find = |number: i32| {
            let name = format!("{}-{number}", key.name);
            pods.iter().find(|pod| pod.name_any() == name)
        };
        for number in 0..wanted {
            let name = format!("{}-{number}", key.name);
            match find(number) {
                Some(pod) if matches!(phase(pod), "Failed" | "Succeeded") => {
                    self.delete_pod(pod).await?;
                    break;
                }
                Some(pod) if is_ready(pod) || parallel => {}
                Some(_) => break,
                None => {
                    let labels = json!({
                        "statefulset.kubernetes.io/pod-name": name,
                        "apps.kubernetes.io/pod-index": number.to_string(),
                    });
                    let naming = PodNaming::Exactly(name);
                    self.create_pod(&*set, &spec.template, naming, &labels)
                        .await?;
                    if !parallel {
                        break;
                    }
                }
            }
        }
        for pod in &pods {
            let name = pod.name_any();
            let number = name
                .rsplit('-')
                .next()
                .and_then(|text| text.parse::<i32>().ok());
            if number.is_some_and(|number| number >= wanted) && !is_leaving(&**pod) {
                self.delete_pod(pod).await?;
            }
        }
        let pods = self.pods_of(&key.namespace, &uid);
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let status = json!({
            "observedGeneration": set.metadata.generation,
            "replicas": pods.len(),
            "currentReplicas": pods.len(),
            "updatedReplicas": pods.len(),
            "readyReplicas": ready,
            "availableReplicas": ready,
        });
        self.write_status(&*set, status).await
    }
}
