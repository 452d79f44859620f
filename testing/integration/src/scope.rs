//! A test's own place in a cluster: a new namespace, and cluster-wide objects that are removed with it.

use std::panic::AssertUnwindSafe;

use anyhow::{Context, Result};
use futures::FutureExt;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, ServiceAccount};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api as Objects, Client, Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use uuid::Uuid;

use crate::raw::Raw;
use crate::wait::{DEADLINE, wait_for};
use crate::watch::Watch;
use crate::{Api, objects};

/// Runs a test in its own namespace and removes everything it created, also when it fails.
pub async fn in_namespace(test: impl AsyncFnOnce(&Scope) -> Result<()>) -> Result<()> {
    let scope = Scope::open().await?;
    let outcome = AssertUnwindSafe(Box::pin(test(&scope)))
        .catch_unwind()
        .await;
    let closed = scope.close().await;
    match outcome {
        Ok(result) => result.and(closed),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// A namespace on an API server, and what was created beside it.
pub struct Scope {
    pub api: Api,
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
        let api = Api::start().await?;
        let client = api.client()?;
        let namespace = make_namespace(&client).await?;
        Ok(Self {
            api,
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
        Objects::namespaced(self.client(), &self.namespace)
    }

    /// Cluster-wide objects of one kind.
    pub fn cluster<K>(&self) -> Objects<K>
    where
        K: Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Objects::all(self.client())
    }

    pub fn pods(&self) -> Objects<Pod> {
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
        let pods: Objects<Pod> = Objects::namespaced(self.client(), name);
        release_pods(&pods).await?;
        self.cluster::<Namespace>()
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Creates a pod that no scheduler and no kubelet will touch.
    pub async fn create_pod(&self, pod: &Pod) -> Result<Pod> {
        let name = pod.name_any();
        let created = self.pods().create(&PostParams::default(), pod).await;
        created.with_context(|| format!("cannot create pod {name}"))
    }

    /// Creates the plain pod of that name.
    pub async fn pod(&self, name: &str) -> Result<Pod> {
        self.create_pod(&objects::pod(name).build()).await
    }

    /// Creates a node that exists only as an object; it is deleted with the scope.
    pub async fn create_node(&self, node: &Node) -> Result<Node> {
        let name = node.name_any();
        self.nodes.lock().push(name.clone());
        let created = self.nodes().create(&PostParams::default(), node).await;
        created.with_context(|| format!("cannot create node {name}"))
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
    pub fn raw(&self) -> Raw {
        Raw::new(self.client())
    }

    /// The path of a collection in the test's namespace: `path("/api/v1", "pods")`.
    pub fn path(&self, root: &str, plural: &str) -> String {
        format!("{root}/namespaces/{}/{plural}", self.namespace)
    }

    async fn close(self) -> Result<()> {
        release_pods(&self.pods())
            .await
            .context("cannot remove the test's pods")?;
        let nodes = std::mem::take(&mut *self.nodes.lock());
        for node in nodes {
            match self.nodes().delete(&node, &DeleteParams::default()).await {
                Ok(_) => {}
                Err(kube::Error::Api(status)) if status.is_not_found() => {}
                Err(error) => return Err(error).context("cannot delete the test's node"),
            }
        }
        self.cluster::<Namespace>()
            .delete(&self.namespace, &DeleteParams::default())
            .await
            .context("cannot delete the test's namespace")?;
        Ok(())
    }
}

async fn make_namespace(client: &Client) -> Result<String> {
    let name = format!("gpushare-test-{}", short_id());
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Objects<Namespace> = Objects::all(client.clone());
    let created = namespaces.create(&PostParams::default(), &namespace).await;
    created.context("cannot create the test's namespace")?;
    // Pods are not admitted without the default account, which a real cluster creates a moment later.
    let accounts: Objects<ServiceAccount> = Objects::namespaced(client.clone(), &name);
    wait_for("the default service account exists", DEADLINE, async || {
        Ok(accounts.get_opt("default").await?)
    })
    .await?;
    Ok(name)
}

/// Deletes all pods at once: no kubelet would confirm the end of their grace period.
async fn release_pods(pods: &Objects<Pod>) -> Result<()> {
    for pod in pods.list(&ListParams::default()).await?.items {
        let name = pod.name_any();
        if !pod.finalizers().is_empty() {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            ignore_missing(pods.patch(&name, &PatchParams::default(), &free).await)?;
        }
        ignore_missing(
            pods.delete(&name, &DeleteParams::default().grace_period(0))
                .await,
        )?;
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
