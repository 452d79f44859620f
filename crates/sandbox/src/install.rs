//! Applies gpushare's own manifests, the same files that an operator applies. Accounts and rights are left out because
//! the embedded API server has none, and the webhook's Deployment because the webhook runs in this process.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Client, ResourceExt, discovery};
use serde_json::{Value, json};

use crate::error::SandboxError;
use crate::wait;

/// The namespace of the components.
pub(crate) const NAMESPACE: &str = "gpushare-system";
const WEBHOOK: &str = include_str!("../../../deploy/webhook.yaml");
const KINDS: [&str; 3] = [
    "PriorityClass",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];
const PATIENCE: Duration = Duration::from_mins(1);

/// The field manager of objects that the sandbox itself applies.
const MANAGER: &str = "gpushare-sandbox";

/// The documents of a YAML text as objects.
pub(crate) fn documents(text: &str) -> Result<Vec<Value>, String> {
    let documents = text.split("\n---").map(|part| {
        let part = part.trim_start_matches('-');
        serde_saphyr::from_str::<Value>(part).map_err(|error| error.to_string())
    });
    let documents: Result<Vec<Value>, String> = documents.collect();
    Ok(documents?
        .into_iter()
        .filter(|document| !document.is_null())
        .collect())
}

/// Applies an object as `kubectl apply --server-side` does.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, SandboxError> {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    let what = format!("apply {kind} {name}");
    let object: DynamicObject = serde_json::from_value(object.clone())
        .map_err(|error| SandboxError::api(&what)(kube::Error::SerdeError(error)))?;
    let api = dynamic_api(client, &object)
        .await
        .map_err(SandboxError::api(&what))?;
    let params = PatchParams::apply(MANAGER).force();
    api.patch(&object.name_any(), &params, &Patch::Apply(&object))
        .await
        .map_err(SandboxError::api(what))
}

/// The API of an object's kind, in its namespace.
async fn dynamic_api(
    client: &Client,
    object: &DynamicObject,
) -> Result<Api<DynamicObject>, kube::Error> {
    let types = object.types.clone().unwrap_or_default();
    let gvk = GroupVersionKind::try_from(&types)
        .map_err(|error| kube::Error::Service(Box::new(error)))?;
    let (resource, capabilities) = discovery::pinned_kind(client, &gvk).await?;
    Ok(match capabilities.scope {
        discovery::Scope::Cluster => Api::all_with(client.clone(), &resource),
        discovery::Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    })
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object
        .pointer(path)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Creates the namespace, before any component starts.
pub(crate) async fn namespace(client: &Client) -> Result<(), SandboxError> {
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    apply(client, &namespace).await.map(drop)
}

/// Applies the priority classes and the webhook's configurations, with the address at which it serves.
pub(crate) async fn webhook(client: &Client, address: SocketAddr) -> Result<(), SandboxError> {
    let broken = |reason| SandboxError::Scenario {
        path: "deploy/webhook.yaml".to_owned(),
        reason,
    };
    for mut document in documents(WEBHOOK).map_err(broken)? {
        if !KINDS.contains(&text(&document, "/kind")) {
            continue;
        }
        let webhooks = document.get_mut("webhooks").and_then(Value::as_array_mut);
        for webhook in webhooks.into_iter().flatten() {
            let path = text(webhook, "/clientConfig/service/path").to_owned();
            let url = format!("https://{address}{path}");
            if let Some(webhook) = webhook.as_object_mut() {
                webhook.insert("clientConfig".to_owned(), json!({ "url": url }));
            }
        }
        apply(client, &document).await?;
    }
    Ok(())
}

/// Waits until the API server reaches the webhook and trusts it.
pub(crate) async fn webhook_answers(client: &Client) -> Result<(), SandboxError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let limits = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "1"});
    let container = json!({"name": "app", "image": "try", "resources": {"limits": limits}});
    let pod = json!({"metadata": {"name": "try"}, "spec": {"containers": [container]}});
    let pod: Pod = serde_json::from_value(pod)
        .map_err(|error| SandboxError::api("make a pod")(kube::Error::SerdeError(error)))?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    wait::until("the webhook to answer", PATIENCE, async || {
        let tried = pods.create(&params, &pod).await;
        tried.map(drop).map_err(|error| error.to_string())
    })
    .await
}
