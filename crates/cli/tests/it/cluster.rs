//! A cluster for tests: the embedded API server and a kubeconfig for it.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use gpushare_apiserver::{Builder, Server};
use gpushare_core::record::Record;
use gpushare_core::{Amounts, Card, CardId, NodeName, Placement, PodUid, gpu, inventory, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::gpu_budget::GpuBudget;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams, Request};
use kube::{Client, Config, CustomResourceExt, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Cluster {
    client: Client,
    directory: TempDir,
    server: Server,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        Self::with(Server::builder(), &json!({})).await
    }

    /// A server with budgets, and a kubeconfig with these credentials of its user.
    pub(crate) async fn with_budgets(user: &Value) -> Self {
        Self::with(Server::builder().crd(GpuBudget::crd()), user).await
    }

    async fn with(server: Builder, user: &Value) -> Self {
        let server = server.start().await.unwrap();
        let config = Config::new(server.url().parse().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
            "users": [{"name": "u", "user": user}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self {
            client: Client::try_from(config).unwrap(),
            directory,
            server,
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    /// Creates an object of any kind, given the path of the kind.
    pub(crate) async fn create_at(&self, path: &str, object: &Value) {
        let namespace = object["metadata"]["namespace"].as_str();
        if let Some(namespace) = namespace {
            self.add_namespace(namespace).await;
        }
        let body = serde_json::to_vec(object).unwrap();
        let request = Request::new(path).create(&PostParams::default(), body);
        let created: Result<Value, _> = self.client.request(request.unwrap()).await;
        created.unwrap_or_else(|error| panic!("{path}: {error}"));
    }

    /// Writes a file beside the kubeconfig.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    pub(crate) async fn add_node(&self, node: &Value) {
        let api: Api<Node> = Api::all(self.client.clone());
        let created = self.create(api.clone(), node).await;
        // The API server taints every new node as not ready; the node controller would remove the taint.
        let taints = Patch::Merge(json!({"spec": {"taints": node["spec"]["taints"]}}));
        let (name, params) = (created.name_any(), PatchParams::default());
        api.patch(&name, &params, &taints).await.unwrap();
    }

    /// Creates the pod and returns its uid.
    pub(crate) async fn add_pod(&self, pod: &Value) -> String {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
        self.add_namespace(namespace).await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        self.create(api, pod).await.metadata.uid.unwrap()
    }

    /// Creates an object, and then writes its status, which a create drops.
    pub(crate) async fn create<K>(&self, api: Api<K>, object: &Value) -> K
    where
        K: Clone + Debug + Serialize + DeserializeOwned + ResourceExt,
    {
        let typed = serde_json::from_value(object.clone()).unwrap();
        let created = api.create(&PostParams::default(), &typed).await.unwrap();
        if object["status"].is_object() {
            let patch = Patch::Merge(json!({"status": object["status"]}));
            let (name, params) = (created.name_any(), PatchParams::default());
            api.patch_status(&name, &params, &patch).await.unwrap();
        }
        created
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    async fn add_namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if api.get_opt(name).await.unwrap().is_none() {
            self.create(api, &json!({"metadata": {"name": name}})).await;
        }
    }

    /// Creates the pod with the record that the extender would write.
    pub(crate) async fn place(&self, name: &str, node: &str, limits: &Value, card: &str) {
        let pod = pod(name, node, std::slice::from_ref(limits), &json!({}));
        let uid = self.add_pod(&pod).await;
        let dialects = gpu::dialects(gpu::AliyunUnit::GiB);
        let facts = PodFacts::new(&serde_json::from_value(pod).unwrap(), &dialects);
        let placement = Placement::on_one_card(&facts.ask.unwrap().unwrap(), &CardId::new(card));
        let (uid, node) = (PodUid::new(uid), NodeName::new(node));
        let record = Record::new(uid, node, &dialects.classes, &placement);
        let annotations = json!({names::ALLOCATION: record.encode()});
        self.annotate(name, &annotations).await;
    }

    pub(crate) async fn uid(&self, name: &str) -> String {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.get(name).await.unwrap().metadata.uid.unwrap()
    }

    pub(crate) async fn set_status(&self, name: &str, status: &Value) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub(crate) async fn annotate(&self, name: &str, annotations: &Value) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

/// The annotation of a node whose agent found cards of these sizes in MiB.
pub(crate) fn inventory_of(node: &str, mib: &[u64]) -> Value {
    let cards: Vec<Card> = (0..)
        .zip(mib)
        .map(|(index, memory)| Card {
            id: CardId::new(format!("GPU-{node}-{index}")),
            class: gpu::CLASS.into(),
            index,
            model: "Tesla T4".into(),
            capacity: Amounts::of(gpu::MEMORY, *memory).with(gpu::CORE, 100),
            healthy: true,
        })
        .collect();
    json!({names::CARDS: inventory::encode(&gpu::classes(), &cards)})
}

/// A running pod, one container for each set of limits.
pub(crate) fn pod(name: &str, node: &str, limits: &[Value], annotations: &Value) -> Value {
    let containers: Vec<Value> = limits
        .iter()
        .enumerate()
        .map(|(index, limits)| json!({"name": format!("c{index}"), "image": "x", "resources": {"limits": limits}}))
        .collect();
    json!({
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running"},
    })
}
