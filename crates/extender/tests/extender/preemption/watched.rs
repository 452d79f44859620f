//! A cluster with priorities, and what the tests ask of it.

use gpushare_apiserver::{On, Verb};
use gpushare_core::names;
use gpushare_extender::Extender;
use gpushare_testkit::cluster::{self, Objects};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use crate::api::{Following, bind, until};
use crate::cluster::{get, node};

const CLAIMS: &str = "gpushare_extender_claims";

pub(super) fn evictions() -> On {
    On::any().verb(Verb::Create).resource("pods/eviction")
}

impl Following {
    /// Like [`Self::start`], with the priority classes `low` (10), `middle` (20) and `high` (30).
    pub(super) async fn with_priorities(nodes: &[Value]) -> Self {
        let cluster = Self::prepare_priorities(nodes).await;
        cluster.follow().await;
        cluster
    }

    pub(super) async fn prepare_priorities(nodes: &[Value]) -> Self {
        let cluster = Self::prepare(nodes).await;
        let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
        for (name, value) in [("low", 10), ("middle", 20), ("high", 30)] {
            let class = json!({"metadata": {"name": name}, "value": value});
            classes.add(class).await;
        }
        cluster
    }

    pub(super) async fn create_of(&self, name: &str, gib: u64, class: &str) -> Pod {
        self.create_with(name, gib, json!({"priorityClassName": class}))
            .await
    }

    pub(super) async fn create_with(&self, name: &str, gib: u64, spec: Value) -> Pod {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "main", "image": "none", "resources": {
                "limits": {"aliyun.com/gpu-mem": gib.to_string()}}}]},
        });
        for (key, value) in spec.as_object().unwrap() {
            pod["spec"][key] = value.clone();
        }
        self.pods().add(pod).await
    }

    /// A pod that runs on the node.
    pub(super) async fn runs(&self, name: &str, gib: u64, class: &str, node: &str) -> Pod {
        self.runs_by(&self.extender, name, gib, class, node).await
    }

    /// A pod that runs where this extender has bound it.
    pub(super) async fn runs_by(
        &self,
        extender: &Extender,
        name: &str,
        gib: u64,
        class: &str,
        node: &str,
    ) -> Pod {
        let pod = self.create_of(name, gib, class).await;
        assert_eq!(bind(extender, &pod, node).await, "");
        cluster::runs(&self.pods(), name).await
    }

    pub(super) async fn until_booked(&self, number: u64) {
        self.until_bookings(&[("confirmed", number)]).await;
    }

    /// The scheduler asks about the pod, and every node is refused.
    pub(super) async fn is_refused(&self, pod: &Pod, nodes: &[&str]) {
        let result = self.filter(pod, nodes).await;
        assert_eq!(result.node_names.as_deref(), Some(&[][..]), "{result:?}");
    }

    pub(super) async fn fits(&self, pod: &Pod, nodes: &[&str]) -> bool {
        let result = self.filter(pod, nodes).await;
        !result.node_names.unwrap().is_empty()
    }

    pub(super) async fn until_ending(&self, name: &str) {
        until(&format!("{name} is evicted"), async || {
            let pod = self.pods().get_opt(name).await.unwrap();
            pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
        })
        .await;
    }

    pub(super) async fn is_ending(&self, name: &str) -> bool {
        let pod = self.pods().get_opt(name).await.unwrap();
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    pub(super) async fn annotation(&self, pod: &str, name: &str) -> Option<String> {
        let pod = self.read(pod).await;
        pod.metadata
            .annotations
            .unwrap_or_default()
            .get(name)
            .cloned()
    }

    pub(super) async fn until_claimed(&self, pod: &str) -> Value {
        until(&format!("room is claimed for {pod}"), async || {
            self.annotation(pod, names::PREEMPTION).await.is_some()
        })
        .await;
        let claim = self.annotation(pod, names::PREEMPTION).await.unwrap();
        serde_json::from_str(&claim).unwrap()
    }

    /// The name of the only victim.
    pub(super) async fn victim_of(&self, pod: &str) -> String {
        let claim = self.until_claimed(pod).await;
        let [victim] = claim["victims"].as_array().unwrap().as_slice() else {
            panic!("{claim}");
        };
        let pods = self.pods().list(&ListParams::default()).await.unwrap();
        let mut pods = pods.items.into_iter().map(|pod| pod.metadata);
        let found = pods.find(|meta| meta.uid.as_deref() == victim.as_str());
        found.and_then(|meta| meta.name).unwrap()
    }

    pub(super) async fn until_awake(&self, pod: &str) {
        until(&format!("{pod} is woken"), async || {
            self.annotation(pod, names::WOKEN).await.is_some()
        })
        .await;
    }

    pub(super) async fn until_event(&self, pod: &str, reason: &str) -> String {
        until(&format!("{pod} has the event {reason}"), async || {
            self.event(pod, reason).await.is_some()
        })
        .await;
        self.event(pod, reason).await.unwrap()
    }

    pub(super) async fn event(&self, pod: &str, reason: &str) -> Option<String> {
        let event = cluster::event(&self.client, "default", pod, reason).await;
        event?.message
    }

    /// This many pods of the app may be evicted now.
    pub(super) async fn allow(&self, app: &str, allowed: i32) {
        cluster::allow_disruptions(&self.client, "default", app, allowed).await;
    }

    pub(super) async fn claims(&self) -> u64 {
        let (_, metrics) = get(&self.extender, "/metrics").await;
        let line = metrics.lines().find_map(|line| line.strip_prefix(CLAIMS));
        line.unwrap().trim().parse().unwrap()
    }

    pub(super) fn evicted(&self) -> usize {
        self.server.requests().count(Verb::Create, "pods/eviction")
    }
}

/// Two cards with 3 GiB left on each.
pub(super) async fn fragmented() -> Following {
    let cluster = Following::with_priorities(&[node("n1", &[8, 8])]).await;
    cluster.runs("a", 5, "low", "n1").await;
    cluster.runs("b", 5, "low", "n1").await;
    cluster.until_booked(2).await;
    cluster
}
