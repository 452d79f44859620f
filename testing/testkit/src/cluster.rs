//! Objects of an API server, written as JSON.

use std::fmt::Debug;

use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Requests that must succeed.
pub trait Objects<K> {
    /// Creates the object, and then writes its status, which a create drops.
    fn add(&self, object: Value) -> impl Future<Output = K> + Send;

    /// Merges `patch` into an object.
    fn merge(&self, name: &str, patch: Value) -> impl Future<Output = K> + Send;

    /// Merges into the object's status.
    fn merge_status(&self, name: &str, status: Value) -> impl Future<Output = K> + Send;

    /// Merges into the object's annotations.
    fn annotate(&self, name: &str, annotations: Value) -> impl Future<Output = K> + Send;

    /// Deletes without waiting for a grace period, as after all containers have ended.
    fn delete_now(&self, name: &str) -> impl Future<Output = ()> + Send;
}

impl<K> Objects<K> for Api<K>
where
    K: Clone + Debug + DeserializeOwned + Serialize + Send + Sync,
{
    async fn add(&self, object: Value) -> K {
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let name = name.map(str::to_owned);
        let status = object.get("status").filter(|status| status.is_object());
        let status = status.cloned();
        let typed = serde_json::from_value(object).expect("an object of this kind");
        let created = self.create(&PostParams::default(), &typed).await;
        let created = created.unwrap_or_else(|error| panic!("{typed:?}: {error}"));
        match (name, status) {
            (Some(name), Some(status)) => self.merge_status(&name, status).await,
            _ => created,
        }
    }

    async fn merge(&self, name: &str, patch: Value) -> K {
        let patched = self
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        patched.unwrap_or_else(|error| panic!("{name}: {patch}: {error}"))
    }

    async fn merge_status(&self, name: &str, status: Value) -> K {
        let patch = json!({"status": status});
        let patched = self
            .patch_status(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        patched.unwrap_or_else(|error| panic!("{name}: {patch}: {error}"))
    }

    async fn annotate(&self, name: &str, annotations: Value) -> K {
        let patch = json!({"metadata": {"annotations": annotations}});
        self.merge(name, patch).await
    }

    async fn delete_now(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        let deleted = self.delete(name, &now).await;
        deleted.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Writes what the kubelet does when the pod runs and is ready.
pub async fn runs(pods: &Api<Pod>, name: &str) -> Pod {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let running = Patch::Strategic(json!({"status": {"phase": "Running", "conditions": ready}}));
    let patched = pods
        .patch_status(name, &PatchParams::default(), &running)
        .await;
    patched.unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The first Event with this reason on an object of this name.
pub async fn event(client: &Client, namespace: &str, about: &str, reason: &str) -> Option<Event> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let all = events.list(&ListParams::default()).await;
    let mut all = all.expect("Events can be listed").items.into_iter();
    all.find(|event| {
        event.involved_object.name.as_deref() == Some(about)
            && event.reason.as_deref() == Some(reason)
    })
}

/// Protects the pods with the label `app: APP`: this many of them may be evicted now.
pub async fn allow_disruptions(client: &Client, namespace: &str, app: &str, allowed: i32) {
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), namespace);
    if budgets.get_opt(app).await.ok().flatten().is_none() {
        let labels = json!({"matchLabels": {"app": app}});
        let spec = json!({"minAvailable": 1, "selector": labels});
        let budget = json!({"metadata": {"name": app}, "spec": spec});
        budgets.add(budget).await;
    }
    let status = json!({
        "observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1 - allowed,
        "disruptionsAllowed": allowed, "expectedPods": 1,
    });
    budgets.merge_status(app, status).await;
}
