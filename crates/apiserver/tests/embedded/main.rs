//! What only the embedded server can do: faults on demand, request counts, a bounded history, a clean shutdown.
//! The integration suite checks its other answers, on it and on the real API server alike.

mod faults;
mod life;
mod logs;
mod scale;
mod watches;
mod webhooks;

use std::time::Duration;

use anyhow::{Context, Result};
use gpushare_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// Long enough for a slow machine; reached only when a test fails.
const DEADLINE: Duration = Duration::from_mins(1);

/// Fails instead of hanging.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future)
        .await
        .with_context(|| format!("{what} took too long"))
}

/// A client that does not retry by itself, so that every answer is seen.
fn plain_client(server: &Server) -> Result<Client> {
    let mut config = server.config();
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn pods(client: Client) -> Api<Pod> {
    Api::namespaced(client, "default")
}

fn configs(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "default")
}

fn pod(name: &str) -> Result<Pod> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i:1"}]},
    }))?)
}

fn config(name: &str) -> Result<ConfigMap> {
    Ok(serde_json::from_value(json!({"metadata": {"name": name}}))?)
}

async fn create_config(client: &Client, name: &str) -> Result<ConfigMap> {
    Ok(configs(client.clone())
        .create(&PostParams::default(), &config(name)?)
        .await?)
}

/// Binds a pod of the default namespace as our extender does.
async fn bind(client: &Client, name: &str, node: &str) -> kube::Result<()> {
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "annotations": {"record": node}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let params = PostParams::default();
    let _: kube::core::Status = pods(client.clone())
        .create_subresource("binding", name, &params, &binding)
        .await?;
    Ok(())
}

async fn node_of(client: &Client, name: &str) -> Result<Option<String>> {
    Ok(pods(client.clone())
        .get(name)
        .await?
        .spec
        .context("no spec")?
        .node_name)
}

/// The code of a refusal; None when the request failed without an answer.
fn code<T>(result: kube::Result<T>) -> Result<Option<u16>> {
    match result {
        Ok(_) => anyhow::bail!("the request succeeded"),
        Err(kube::Error::Api(status)) => Ok(Some(status.code)),
        Err(_) => Ok(None),
    }
}
