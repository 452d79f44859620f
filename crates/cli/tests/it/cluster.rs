//! A cluster for tests: the embedded API server and a kubeconfig for it.

use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use assert_cmd::Command;
use gpushare_apiserver::{Answer, Builder, On, Server, Times};
use gpushare_core::record::Record;
use gpushare_core::{Card, CardId, NodeName, Placement, PodUid, gpu, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_testkit::cluster::Objects;
use gpushare_testkit::model;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, PostParams, Request};
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

    pub(crate) async fn of_nodes(nodes: &[Value]) -> Self {
        let cluster = Self::start().await;
        for node in nodes {
            cluster.add_node(node).await;
        }
        cluster
    }

    /// A server with budgets, and a kubeconfig with these credentials of its user.
    pub(crate) async fn with_budgets(user: &Value) -> Self {
        Self::with(Server::builder().crd(GpuBudget::crd()), user).await
    }

    /// A server, and a kubeconfig with these credentials of its user.
    pub(crate) async fn with(server: Builder, user: &Value) -> Self {
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

    /// `kubectl gpushare` with these arguments, connected to this cluster.
    pub(crate) fn gpushare(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-gpushare"));
        command
            .args(arguments)
            .env_remove("GPUSHARE_TIMEKEEPER")
            .env("KUBECONFIG", self.kubeconfig());
        command
    }

    /// Refuses every request for objects of this kind from now on.
    pub(crate) fn forbid(&self, kind: &str) {
        let requests = On::any().resource(kind);
        let faults = self.server.faults();
        faults.answer(requests, Times::Always, Answer::Forbidden);
    }

    /// A kubeconfig that leads to this address instead of the server's.
    pub(crate) fn kubeconfig_for(&self, url: &str) -> PathBuf {
        let config = fs::read_to_string(self.kubeconfig()).unwrap();
        self.write("elsewhere", &config.replace(&self.server.url(), url))
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
        let taints = json!({"spec": {"taints": node["spec"]["taints"]}});
        api.merge(&created.name_any(), taints).await;
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
        K: Clone + Debug + Serialize + DeserializeOwned + Send + Sync,
    {
        api.add(object.clone()).await
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    pub(crate) async fn add_namespace(&self, name: &str) {
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
        api.merge_status(name, status.clone()).await;
    }

    pub(crate) async fn annotate(&self, name: &str, annotations: &Value) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.annotate(name, annotations.clone()).await;
    }
}

/// The annotation of a node whose agent found cards of these sizes in MiB.
pub(crate) fn inventory_of(node: &str, mib: &[u64]) -> Value {
    let cards = model::cards(node, mib).into_iter().map(|card| Card {
        model: "Tesla T4".into(),
        ..card
    });
    model::node(node, &cards.collect::<Vec<_>>())["metadata"]["annotations"].clone()
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
