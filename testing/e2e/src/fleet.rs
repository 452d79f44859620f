//! A cluster of many Node objects without kubelets: pods are scheduled and bound, but never run.

use std::time::Duration;

use gpushare_core::{Amounts, Card, CardId, gpu, inventory, names};
use gpushare_rig::{Options, Rig};
use gpushare_sim::trace::{CARD, Node, Pod};
use k8s_openapi::api::core::v1 as core;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::kubectl::Kubectl;
use crate::process::Process;
use crate::world::{client, extender, kubeconfigs};

/// Sends every pod to the extender, also pods that need no card.
const SCHEDULER: &str = "
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
extenders:
- urlPrefix: http://127.0.0.1:12345/gpushare-scheduler
  filterVerb: filter
  prioritizeVerb: prioritize
  bindVerb: bind
  weight: 200
  httpTimeout: 10s
  nodeCacheCapable: true
";
const DECISION: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub struct Fleet {
    extender: Process,
    rig: Rig,
    _directory: tempfile::TempDir,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Bound(String),
    Refused,
}

impl Fleet {
    /// Starts a cluster with these nodes, and an extender with these flags.
    pub fn start(nodes: &[Node], flags: &[&str]) -> Self {
        let options = Options {
            scheduler_extra: SCHEDULER.to_owned(),
            ..Options::default()
        };
        let rig = Rig::start(options).expect("the rig starts");
        // No controller may judge nodes by heartbeats, because none are sent. The rig's own node takes no pods.
        rig.ctl("cordon node").expect("cordoned");
        rig.stop_component("kube-controller-manager")
            .expect("stopped");
        let directory = tempfile::tempdir().expect("a directory");
        crate::world::install(&rig, &["rbac.yaml"]);
        let accounts = ["gpushare-extender"];
        kubeconfigs(&rig, directory.path(), &accounts).expect("kubeconfigs");
        rig.run(|| async {
            let api: Api<core::Node> = Api::all(client(&rig.kubeconfig()).await);
            for (place, node) in nodes.iter().enumerate() {
                create_node(&api, place, node).await;
            }
        });
        let extender = extender(&rig, directory.path(), flags);
        Self {
            extender,
            rig,
            _directory: directory,
        }
    }

    /// Creates the pod and waits until it is bound. A refused pod is deleted.
    pub fn arrive(&mut self, pod: &Pod) -> Outcome {
        let rig = &self.rig;
        rig.run(|| async {
            let api: Api<core::Pod> = Api::default_namespaced(client(&rig.kubeconfig()).await);
            let name = pod.name.to_lowercase();
            let object = parse(pod_object(&name, pod));
            let created = api.create(&PostParams::default(), &object).await;
            created.expect("the pod is accepted");
            let outcome = timeout(DECISION, decided(&api, &name)).await;
            let outcome = outcome.unwrap_or_else(|_| panic!("{name} is neither bound nor refused"));
            if outcome == Outcome::Refused {
                let now = DeleteParams::default().grace_period(0);
                api.delete(&name, &now).await.expect("the pod is deleted");
            }
            outcome
        })
    }

    pub fn assert_alive(&mut self) {
        self.extender.assert_alive();
    }
}

async fn decided(api: &Api<core::Pod>, name: &str) -> Outcome {
    loop {
        let pod = api.get(name).await.expect("the pod is there");
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name) {
            return Outcome::Bound(node);
        }
        let conditions = pod.status.and_then(|status| status.conditions);
        let refused = conditions.into_iter().flatten().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        if refused {
            return Outcome::Refused;
        }
        sleep(LOOK_AGAIN).await;
    }
}

/// Creates a node. The trace has only one dimension, so each card has 1,000 MiB.
async fn create_node(api: &Api<core::Node>, place: usize, node: &Node) {
    let name = format!("n{place:08}");
    let size = u64::try_from(CARD).expect("positive");
    let cards: Vec<Card> = (0..u32::try_from(node.cards).expect("few"))
        .map(|index| Card {
            id: CardId::new(format!("GPU-{name}-{index}")),
            class: gpu::CLASS.into(),
            index,
            model: node.model.as_str().into(),
            capacity: Amounts::of(gpu::MEMORY, size),
            healthy: true,
        })
        .collect();
    let inventory = inventory::encode(&gpu::classes(), &cards);
    let object = json!({"metadata": {"name": name, "annotations": {names::CARDS: inventory}}});
    let created = api.create(&PostParams::default(), &parse(object)).await;
    created.expect("the node is accepted");
    let resources = json!({
        "cpu": format!("{}m", node.cpu), "memory": format!("{}Mi", node.memory), "pods": "10000",
        names::GPU: (node.cards * 100).to_string(),
        names::GPU_MEM: (node.cards * 1_000).to_string(),
    });
    let ready = json!([{"type": "Ready", "status": "True", "reason": "Test", "message": ""}]);
    let status = json!({"status": {
        "capacity": resources, "allocatable": resources, "conditions": ready}});
    let patch = Patch::Merge(&status);
    let patched = api
        .patch_status(&name, &PatchParams::default(), &patch)
        .await;
    patched.expect("the node's status is accepted");
    // The API server taints every new node as not ready, and no controller here removes the taint.
    let clean = Patch::Merge(json!({"spec": {"taints": null}}));
    let patched = api.patch(&name, &PatchParams::default(), &clean).await;
    patched.expect("the node's taints are removed");
}

fn pod_object(name: &str, pod: &Pod) -> Value {
    let mut requests = json!({
        "cpu": format!("{}m", pod.cpu), "memory": format!("{}Mi", pod.memory)});
    let mut limits = json!({});
    if pod.cards > 0 {
        limits[names::GPU] = json!(pod.cards.to_string());
        if pod.milli < CARD {
            limits[names::GPU_MEM] = json!(pod.milli.to_string());
        }
    }
    for (resource, amount) in limits.as_object().into_iter().flatten() {
        requests[resource] = amount.clone();
    }
    let mut annotations = json!({});
    if !pod.models.is_empty() {
        annotations[names::CARD_MODELS] = json!(pod.models.join(","));
    }
    json!({
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "none", "resources":
                {"requests": requests, "limits": limits}}],
        },
    })
}

fn parse<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid object")
}
