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
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec};
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;

/// Long enough for a slow machine; reached only when a test fails.
const DEADLINE: Duration = Duration::from_mins(1);

/// Fails instead of hanging.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> Result<T> {
    tokio::time::timeout(DEADLINE, future)
        .await
        .with_context(|| format!("{what} took too long"))
}

/// A server, and a client of it that does not retry by itself.
async fn start() -> Result<(Server, Client)> {
    let server = Server::start().await?;
    let client = plain_client(&server)?;
    Ok((server, client))
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

async fn create_pod(client: &Client, name: &str) -> kube::Result<Pod> {
    let container = Container {
        name: "c".to_owned(),
        image: Some("i:1".to_owned()),
        ..Container::default()
    };
    let spec = PodSpec {
        containers: vec![container],
        ..PodSpec::default()
    };
    let pod = Pod {
        metadata: named(name),
        spec: Some(spec),
        ..Pod::default()
    };
    let params = PostParams::default();
    pods(client.clone()).create(&params, &pod).await
}

async fn create_config(client: &Client, name: &str) -> kube::Result<ConfigMap> {
    let config = ConfigMap {
        metadata: named(name),
        ..ConfigMap::default()
    };
    let params = PostParams::default();
    configs(client.clone()).create(&params, &config).await
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
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

/// A binding under way.
fn start_bind(client: &Client, name: &str, node: &str) -> JoinHandle<kube::Result<()>> {
    let (client, name, node) = (client.clone(), name.to_owned(), node.to_owned());
    tokio::spawn(async move { bind(&client, &name, &node).await })
}

async fn node_of(client: &Client, name: &str) -> Result<Option<String>> {
    let pod = pods(client.clone()).get(name).await?;
    Ok(pod.spec.context("no spec")?.node_name)
}

/// The code of a refusal; None when the request failed without an answer.
fn code<T>(result: kube::Result<T>) -> Result<Option<u16>> {
    match result {
        Ok(_) => anyhow::bail!("the request succeeded"),
        Err(kube::Error::Api(status)) => Ok(Some(status.code)),
        Err(_) => Ok(None),
    }
}
