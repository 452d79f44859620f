//! A cluster to view: the embedded API server, and a dashboard of it.

use std::net::SocketAddr;
use std::time::Duration;

use gpushare_apiserver::Server;
use gpushare_core::record::Record;
use gpushare_core::{Card, CardId, NodeName, Placement, PodUid, gpu, names};
use gpushare_daemon::Tasks;
use gpushare_daemon::tls::Tls;
use gpushare_dashboard::access::Access;
use gpushare_dashboard::{Config, start};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_testkit::cluster::Objects;
use gpushare_testkit::model;
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::{Api, Client, CustomResourceExt};
use serde_json::{Value, json};

pub(crate) struct Cluster {
    pub(crate) client: Client,
    tasks: Tasks,
    _server: Server,
}

/// Memory in MiB and compute in percent.
pub(crate) type Size = (u64, u64);

pub(crate) const A100: (&str, u64) = ("NVIDIA A100-SXM4-80GB", 81_920);
pub(crate) const T4: (&str, u64) = ("Tesla T4", 15_360);

impl Cluster {
    pub(crate) async fn start() -> Self {
        let builder = Server::builder().crd(GpuBudget::crd());
        let server = builder.start().await.unwrap();
        Self {
            client: server.client(),
            tasks: Tasks::new(),
            _server: server,
        }
    }

    pub(crate) async fn with_node(name: &str, cards: &[(&str, u64)]) -> Self {
        let cluster = Self::start().await;
        cluster.add_node(name, cards).await;
        cluster
    }

    /// A dashboard of this cluster that everyone on this machine may view.
    pub(crate) fn dashboard(&self) -> SocketAddr {
        self.dashboard_for(Access::Open)
    }

    pub(crate) fn dashboard_for(&self, access: Access) -> SocketAddr {
        self.dashboard_over(None, access)
    }

    pub(crate) fn dashboard_over(&self, tls: Option<Tls>, access: Access) -> SocketAddr {
        let config = Config {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            admin_listen: None,
            tls,
            access,
            dialects: gpu::dialects(gpu::AliyunUnit::GiB),
            sample_every: Duration::from_secs(1),
        };
        start(&self.client, config, &self.tasks).unwrap()
    }

    pub(crate) async fn add_node(&self, name: &str, cards: &[(&str, u64)]) {
        self.add_node_with_sick(name, cards, None).await;
    }

    /// Like [`Self::add_node`], with one sick card.
    pub(crate) async fn add_node_with_sick(
        &self,
        name: &str,
        cards: &[(&str, u64)],
        sick: Option<u32>,
    ) {
        let inventory: Vec<Card> = (0..)
            .zip(cards)
            .map(|(index, (model, memory))| Card {
                model: (*model).into(),
                healthy: Some(index) != sick,
                ..model::card(&card_id(name, index), index, *memory)
            })
            .collect();
        let api: Api<Node> = Api::all(self.client.clone());
        api.add(model::node(name, &inventory)).await;
    }

    pub(crate) async fn add_namespace(&self, name: &str, labels: &Value) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        api.add(namespace).await;
    }

    /// A pod that waits.
    pub(crate) async fn add_pod(&self, namespace: &str, name: &str, size: Size) -> PodUid {
        self.create(&pod(namespace, name, size, None)).await
    }

    /// A running pod with the record that the extender would write.
    pub(crate) async fn place(&self, namespace: &str, name: &str, on: (&str, u32), size: Size) {
        let (node, card) = on;
        let pod = pod(namespace, name, size, Some(node));
        let uid = self.create(&pod).await;
        let dialects = gpu::dialects(gpu::AliyunUnit::GiB);
        let facts = PodFacts::new(&serde_json::from_value(pod).unwrap(), &dialects);
        let ask = facts.ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &CardId::new(card_id(node, card)));
        let record = Record::new(uid, NodeName::new(node), &dialects.classes, &placement);
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let annotations = json!({names::ALLOCATION: record.encode()});
        api.annotate(name, annotations).await;
    }

    /// The running pod default/train: 20 GiB of memory and 30 % of the compute of this card.
    pub(crate) async fn place_train(&self, on: (&str, u32)) {
        self.place("default", "train", on, (20_480, 30)).await;
    }

    async fn create(&self, pod: &Value) -> PodUid {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let mut pod = pod.clone();
        if pod["spec"].get("nodeName").is_some() {
            pod["status"] = json!({"phase": "Running"});
        }
        PodUid::new(api.add(pod).await.metadata.uid.unwrap())
    }

    pub(crate) async fn remove_pod(&self, namespace: &str, name: &str) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        api.delete_now(name).await;
    }

    pub(crate) async fn add_budget(&self, name: &str, spec: &Value, status: &Value) {
        let api: Api<GpuBudget> = Api::all(self.client.clone());
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
            "metadata": {"name": name}, "spec": spec, "status": status,
        });
        api.add(budget).await;
    }

    pub(crate) async fn say(&self, namespace: &str, pod: &str, uid: &PodUid, message: &str) {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let event = json!({
            "metadata": {"name": format!("{pod}.1"), "namespace": namespace},
            "involvedObject": {"kind": "Pod", "name": pod, "namespace": namespace, "uid": uid},
            "reason": "FailedScheduling", "message": message, "type": "Warning",
            "firstTimestamp": "2026-11-16T09:00:00Z", "lastTimestamp": "2026-11-16T09:00:00Z",
        });
        api.add(event).await;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.tasks.shutdown().cancel();
    }
}

pub(crate) fn card_id(node: &str, index: u32) -> String {
    format!("GPU-{node}-{index}")
}

fn pod(namespace: &str, name: &str, (memory, core): Size, node: Option<&str>) -> Value {
    let limits = json!({
        "gpushare.io/gpu": "1",
        "gpushare.io/gpu-mem": memory.to_string(),
        "gpushare.io/gpu-core": core.to_string(),
    });
    let mut pod = json!({
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}
