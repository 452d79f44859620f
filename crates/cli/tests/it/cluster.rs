//! A cluster to ask: the embedded API server and a kubeconfig of it.

use std::fs;
use std::path::PathBuf;

use gpushare_apiserver::Server;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Cluster {
    client: Client,
    directory: TempDir,
    _server: Server,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let server = Server::start().await.unwrap();
        let config = Config::new(server.url().parse().unwrap());
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server.url()}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(directory.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        Self {
            client: Client::try_from(config).unwrap(),
            directory,
            _server: server,
        }
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// Creates the node with its status, which a create alone may leave out.
    pub(crate) async fn add_node(&self, node: &Value) {
        let api: Api<Node> = Api::all(self.client.clone());
        let object = serde_json::from_value(node.clone()).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
        let patch = Patch::Merge(json!({"status": node["status"]}));
        let name = node["metadata"]["name"].as_str().unwrap();
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Creates the pod with its status and returns its uid.
    pub(crate) async fn add_pod(&self, pod: &Value) -> String {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
        self.add_namespace(namespace).await;
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let object = serde_json::from_value(pod.clone()).unwrap();
        let created = api.create(&PostParams::default(), &object).await.unwrap();
        let name = pod["metadata"]["name"].as_str().unwrap();
        let patch = Patch::Merge(json!({"status": pod["status"]}));
        api.patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
        created.metadata.uid.unwrap()
    }

    async fn add_namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        if api.get_opt(name).await.unwrap().is_none() {
            let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
            api.create(&PostParams::default(), &namespace)
                .await
                .unwrap();
        }
    }

    pub(crate) async fn annotate(&self, name: &str, annotations: &Value) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        api.patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}
