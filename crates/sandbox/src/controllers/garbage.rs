//! Garbage collection: deletes objects whose owner is gone, in the background.

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::Api;
use kube::ResourceExt;
use kube::api::DeleteParams;

use super::Controllers;
use super::owned::{belongs_to, is_leaving};

impl Controllers {
    pub(super) async fn remove_orphans(&self, owner: &str) -> Result<(), kube::Error> {
        for set in self.replica_sets.all() {
            if belongs_to(&*set, owner) {
                let namespace = set.namespace().unwrap_or_default();
                let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &namespace);
                match api.delete(&set.name_any(), &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    other => drop(other?),
                }
            }
        }
        for pod in self.pods.all() {
            if belongs_to(&*pod, owner) && !is_leaving(&*pod) {
                self.delete_pod(&pod).await?;
            }
        }
        Ok(())
    }
}
