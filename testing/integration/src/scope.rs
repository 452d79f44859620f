//! A test's own place in a cluster: a new namespace, and cluster-wide objects that are removed with it.

use std::panic::AssertUnwindSafe;

use anyhow::{Context, Result};
use futures::FutureExt;
use gpushare_apiserver::Server;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::ListParams;
use kube::{Api, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::api::connect;
use crate::objects;
use crate::raw::{Answer, RawClient};
use crate::requests::Objects;
use crate::verdict::CREATED;
use crate::wait::until;
use crate::watch::Watch;

/// Runs a test in its own namespace and removes everything it created, also when it fails.
pub fn in_namespace(test: impl AsyncFnOnce(&Scope) -> Result<()>) -> Result<()> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build()?.block_on(async {
        let scope = Scope::open().await?;
        let outcome = AssertUnwindSafe(Box::pin(test(&scope)))
            .catch_unwind()
            .await;
        let closed = scope.close().await;
        match outcome {
            Ok(result) => result.and(closed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A namespace on an API server, and what was created beside it.
pub struct Scope {
    _server: Option<Server>,
    client: Client,
    namespace: String,
    nodes: Mutex<Vec<String>>,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Scope {
    async fn open() -> Result<Self> {
        let (server, client) = connect().await?;
        let namespace = make_namespace(&client).await?;
        Ok(Self {
            _server: server,
            client,
            namespace,
            nodes: Mutex::new(Vec::new()),
        })
    }

    pub fn client(&self) -> Client {
        self.client.clone()
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Objects of one kind in the test's namespace.
    pub fn objects<K>(&self) -> Objects<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        let api = Api::namespaced(self.client(), &self.namespace);
        Objects { api }
    }

    /// Cluster-wide objects of one kind.
    pub fn cluster<K>(&self) -> Objects<K>
    where
        K: Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        let api = Api::all(self.client());
        Objects { api }
    }

    pub fn pods(&self) -> Objects<Pod> {
        self.objects()
    }

    pub fn pods_in(&self, namespace: &str) -> Objects<Pod> {
        let api = Api::namespaced(self.client(), namespace);
        Objects { api }
    }

    pub fn configs(&self) -> Objects<ConfigMap> {
        self.objects()
    }

    pub fn nodes(&self) -> Objects<Node> {
        self.cluster()
    }

    /// Another namespace, for tests across namespaces. It stays until [`Self::drop_namespace`].
    pub async fn another_namespace(&self) -> Result<String> {
        make_namespace(&self.client).await
    }

    pub async fn drop_namespace(&self, name: &str) -> Result<()> {
        release_pods(&self.pods_in(name)).await?;
        self.cluster::<Namespace>().delete(name).await?;
        Ok(())
    }

    /// Creates a pod that no scheduler and no kubelet will touch.
    pub async fn create_pod(&self, pod: impl Into<Pod>) -> Result<Pod> {
        let pod = pod.into();
        let name = pod.name_any();
        let created = self.pods().create(pod).await;
        created.with_context(|| format!("cannot create pod {name}"))
    }

    /// Creates the plain pod of that name.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        self.create_pod(objects::pod(name)).await
    }

    /// Creates the `ConfigMap` of that name.
    pub async fn config(&self, name: &str, data: Value) -> Result<ConfigMap> {
        let config = json!({"metadata": {"name": name}, "data": data});
        self.configs().create_json(config).await
    }

    /// Binds a pod to a node, as a scheduler does.
    pub async fn bind(&self, pod: &str, node: &str) -> Result<()> {
        let binding = json!({"metadata": {"name": pod}, "target": {"kind": "Node", "name": node}});
        self.post_binding(pod, &binding).await?.must_be(CREATED);
        Ok(())
    }

    /// Binds a pod with a binding of the test's own.
    pub async fn post_binding(&self, pod: &str, binding: &Value) -> Result<Answer> {
        let path = self.path("/api/v1", &format!("pods/{pod}/binding"));
        self.raw().post(&path, binding.to_string()).await
    }

    /// Creates a node that exists only as an object; it is deleted with the scope.
    pub async fn create_node(&self, node: Node) -> Result<Node> {
        let name = node.name_any();
        self.nodes.lock().push(name.clone());
        let created = self.nodes().create(node).await;
        created.with_context(|| format!("cannot create node {name}"))
    }

    /// Creates a node with this capacity and a name of its own, which is returned.
    pub async fn node(&self, resource: &str, amount: &str) -> Result<String> {
        let node = objects::node(&self.unique("node"), resource, amount);
        Ok(self.create_node(node).await?.name_any())
    }

    /// A name for cluster-wide objects that no other test uses.
    pub fn unique(&self, prefix: &str) -> String {
        format!("{prefix}-{}", short_id())
    }

    /// Watches one kind in the test's namespace.
    pub fn watch<K>(&self) -> Watch<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Watch::of(self.objects())
    }

    /// Requests below the level of typed clients.
    pub fn raw(&self) -> RawClient {
        RawClient::new(self.client())
    }

    /// The path of what is in the test's namespace: `path("/api/v1", "pods/a")`.
    pub fn path(&self, root: &str, rest: &str) -> String {
        format!("{root}/namespaces/{}/{rest}", self.namespace)
    }

    async fn close(self) -> Result<()> {
        release_pods(&self.pods())
            .await
            .context("cannot remove the test's pods")?;
        let nodes = std::mem::take(&mut *self.nodes.lock());
        for node in nodes {
            let deleted = ignore_missing(self.nodes().delete(&node).await);
            deleted.context("cannot delete the test's node")?;
        }
        let namespaces = self.cluster::<Namespace>();
        let deleted = namespaces.delete(&self.namespace).await;
        deleted.context("cannot delete the test's namespace")?;
        Ok(())
    }
}

async fn make_namespace(client: &Client) -> Result<String> {
    let name = format!("gpushare-test-{}", short_id());
    let api = Api::all(client.clone());
    let namespaces: Objects<Namespace> = Objects { api };
    let namespace = json!({"metadata": {"name": name}});
    let created = namespaces.create_json(namespace).await;
    created.context("cannot create the test's namespace")?;
    // Pods are not admitted without the default account, which a real cluster creates a moment later.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
    until("the default service account exists", async || {
        Ok(accounts.get_opt("default").await?.is_some())
    })
    .await?;
    Ok(name)
}

/// Deletes all pods at once: no kubelet would confirm the end of their grace period.
async fn release_pods(pods: &Objects<Pod>) -> Result<()> {
    for pod in pods.api.list(&ListParams::default()).await?.items {
        let name = pod.name_any();
        if !pod.finalizers().is_empty() {
            ignore_missing(pods.free(&name).await)?;
        }
        ignore_missing(pods.delete_in(0, &name).await)?;
    }
    Ok(())
}

fn ignore_missing<T>(result: kube::Result<T>) -> Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn short_id() -> String {
    Uuid::new_v4()
        .simple()
        .to_string()
        .chars()
        .take(10)
        .collect()
}
