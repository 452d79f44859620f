//! A cluster with priorities, and the steps and checks of its tests.

use gpushare_apiserver::{On, Verb};
use gpushare_core::names;
use gpushare_testkit::cluster::{self, Objects};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use serde_json::{Value, json};

use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::node;

pub(super) fn evictions() -> On {
    On::any().verb(Verb::Create).resource("pods/eviction")
}

impl Following {
    /// Like [`Self::start`], with the priority classes `low` (10), `middle` (20) and `high` (30).
    pub(super) async fn with_priorities(nodes: &[Value]) -> Self {
        Self::prepare_priorities(nodes).await.following().await
    }

    pub(super) async fn prepare_priorities(nodes: &[Value]) -> Self {
        let cluster = Self::prepare(nodes).await;
        for (name, value) in [("low", 10), ("middle", 20), ("high", 30)] {
            cluster.add_class(name, json!({"value": value})).await;
        }
        cluster
    }

    pub(super) async fn add_class(&self, name: &str, mut class: Value) {
        class["metadata"] = json!({"name": name});
        let classes: Api<PriorityClass> = Api::all(self.client.clone());
        classes.add(class).await;
    }

    pub(super) async fn create_of(&self, name: &str, gib: u64, class: &str) -> Pod {
        let spec = json!({"priorityClassName": class});
        self.create_with(name, gib, spec).await
    }

    /// Creates a pod that n1 refuses.
    pub(super) async fn refused(&self, name: &str, gib: u64, class: &str) -> Pod {
        let pod = self.create_of(name, gib, class).await;
        self.refuses(&pod, &["n1"]).await;
        pod
    }

    /// A pod that runs on the node.
    pub(super) async fn runs(&self, name: &str, gib: u64, class: &str, node: &str) -> Pod {
        self.runs_by(self, name, gib, class, node).await
    }

    /// A pod that runs where this extender has bound it.
    pub(super) async fn runs_by(
        &self,
        extender: &impl Asked,
        name: &str,
        gib: u64,
        class: &str,
        node: &str,
    ) -> Pod {
        let pod = self.create_of(name, gib, class).await;
        assert_eq!(extender.bind(&pod, node).await, "");
        cluster::runs(&self.pods(), name).await
    }

    pub(super) async fn until_ending(&self, name: &str) {
        let what = format!("{name} is evicted");
        until(&what, async || self.is_ending(name).await).await;
    }

    pub(super) async fn is_ending(&self, name: &str) -> bool {
        let pod = self.pods().get_opt(name).await.unwrap();
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    }

    pub(super) async fn annotation(&self, pod: &str, name: &str) -> Option<String> {
        let mut annotations = self.read(pod).await.metadata.annotations?;
        annotations.remove(name)
    }

    pub(super) async fn claim(&self, pod: &str) -> Option<String> {
        self.annotation(pod, names::PREEMPTION).await
    }

    pub(super) async fn nominated(&self, pod: &str) -> Option<String> {
        self.read(pod).await.status?.nominated_node_name
    }

    pub(super) async fn until_claimed(&self, pod: &str) -> Value {
        let what = format!("room is claimed for {pod}");
        let claim = until(&what, async || self.claim(pod).await).await;
        serde_json::from_str(&claim).unwrap()
    }

    pub(super) async fn until_unclaimed(&self, pod: &str) {
        let what = format!("the claim for {pod} is taken off");
        until(&what, async || self.claim(pod).await.is_none()).await;
    }

    /// The name of the only victim.
    pub(super) async fn victim_of(&self, pod: &str) -> String {
        let claim = self.until_claimed(pod).await;
        let [victim] = claim["victims"].as_array().unwrap().as_slice() else {
            panic!("{claim}");
        };
        let mut pods = self.list_pods().await.into_iter().map(|pod| pod.metadata);
        let found = pods.find(|meta| meta.uid.as_deref() == victim.as_str());
        found.and_then(|meta| meta.name).unwrap()
    }

    pub(super) async fn until_awake(&self, pod: &str) {
        let what = format!("{pod} is woken");
        until(&what, async || self.annotation(pod, names::WOKEN).await).await;
    }

    /// This many pods of the app may be evicted now.
    pub(super) async fn allow(&self, app: &str, allowed: i32) {
        cluster::allow_disruptions(&self.client, "default", app, allowed).await;
    }

    pub(super) fn evicted(&self) -> usize {
        self.server.requests().count(Verb::Create, "pods/eviction")
    }
}

/// A card that a pod of this priority class fills.
pub(super) async fn full(name: &str, class: &str) -> (Following, Pod) {
    let cluster = Following::with_priorities(&[node("n1", &[8])]).await;
    let pod = cluster.runs(name, 8, class, "n1").await;
    cluster.until_confirmed(1).await;
    (cluster, pod)
}

/// Two cards with 3 GiB left on each.
pub(super) async fn fragmented() -> Following {
    let cluster = Following::with_priorities(&[node("n1", &[8, 8])]).await;
    cluster.runs("a", 5, "low", "n1").await;
    cluster.runs("b", 5, "low", "n1").await;
    cluster.until_confirmed(2).await;
    cluster
}
