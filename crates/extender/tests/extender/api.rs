//! An extender that follows an API server, and the server's side of it.

use gpushare_apiserver::{Faults, Gate, On, Server, Verb};
use gpushare_core::names;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::Config;
use gpushare_testkit::cluster::{self, Objects};
pub(crate) use gpushare_testkit::until;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::asked::Asked;
use crate::cluster::config;

pub(crate) struct Following {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) extender: Extender,
    pub(crate) tasks: Tasks,
}

/// Requests that carry out a bind.
pub(crate) fn binds() -> On {
    On::any().verb(Verb::Create).resource("pods/binding")
}

/// Requests that void all earlier binds.
pub(crate) fn fences() -> On {
    On::any().verb(Verb::Patch).resource("pods/status")
}

pub(crate) fn pod_watches() -> On {
    On::any().verb(Verb::Watch).resource("pods")
}

impl Asked for Following {
    fn extender(&self) -> &Extender {
        &self.extender
    }
}

impl Following {
    /// A server with these nodes, and an extender that has listed them.
    pub(crate) async fn start(nodes: &[Value]) -> Self {
        Self::prepare(nodes).await.following().await
    }

    /// Like [`Self::start`], but the extender does not follow the server yet.
    pub(crate) async fn prepare(nodes: &[Value]) -> Self {
        Self::prepare_with(config(), nodes).await
    }

    pub(crate) async fn prepare_with(config: Config, nodes: &[Value]) -> Self {
        let server = Server::start().await.unwrap();
        let mut config_of_client = kube::Config::new(server.url().parse().unwrap());
        config_of_client.default_retry = false;
        let client = Client::try_from(config_of_client).unwrap();
        let following = Self::new(server, client, config);
        for node in nodes {
            following.nodes().add(node.clone()).await;
        }
        following
    }

    fn new(server: Server, client: Client, config: Config) -> Self {
        let tasks = Tasks::new();
        let extender = Extender::new(config, client.clone(), tasks.clone());
        Self {
            server,
            client,
            extender,
            tasks,
        }
    }

    /// Replaces the extender by another one, which has listed what the server has.
    pub(crate) async fn restarted(self, config: Config) -> Self {
        self.tasks.shutdown().cancel();
        let successor = Self::new(self.server, self.client, config);
        successor.following().await
    }

    pub(crate) async fn following(self) -> Self {
        self.extender.follow(&self.tasks);
        self.until_ready().await;
        self
    }

    pub(crate) fn faults(&self) -> &Faults {
        self.server.faults()
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub(crate) async fn list_pods(&self) -> Vec<Pod> {
        let list = self.pods().list(&ListParams::default()).await;
        list.unwrap().items
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "default");
        events.list(&ListParams::default()).await.unwrap().items
    }

    /// Waits for an Event on the pod, and returns what it says.
    pub(crate) async fn until_event(&self, pod: &str, reason: &str) -> String {
        let what = format!("{pod} has the event {reason}");
        let event = async || {
            let event = cluster::event(&self.client, "default", pod, reason).await;
            event?.message
        };
        until(&what, event).await
    }

    /// Creates a pod that asks for memory of one card.
    pub(crate) async fn create(&self, name: &str, gib: u64) -> Pod {
        self.create_with(name, gib, json!({})).await
    }

    /// Like [`Self::create`], with these fields in the pod's spec.
    pub(crate) async fn create_with(&self, name: &str, gib: u64, spec: Value) -> Pod {
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

    /// Creates two pods that ask for as much each.
    pub(crate) async fn create_both(&self, names: [&str; 2], gib: u64) -> [Pod; 2] {
        let [one, other] = names;
        [self.create(one, gib).await, self.create(other, gib).await]
    }

    /// Creates a pod, and binds it to the node.
    pub(crate) async fn bound(&self, name: &str, gib: u64, node: &str) -> Pod {
        let pod = self.create(name, gib).await;
        assert_eq!(self.bind(&pod, node).await, "");
        pod
    }

    pub(crate) async fn read(&self, name: &str) -> Pod {
        self.pods().get(name).await.unwrap()
    }

    /// A bind to n1 that the server has received and does not carry out until the gate is released.
    pub(crate) async fn hold_bind(
        &self,
        extender: &impl Asked,
        pod: &Pod,
    ) -> (Gate, JoinHandle<String>) {
        let gate = self.faults().hold_before(binds());
        let call = extender.begin_bind(pod);
        gate.reached(1).await;
        (gate, call)
    }

    /// Deletes a pod at once, as after its containers have ended.
    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete_now(name).await;
    }

    pub(crate) async fn set_phase(&self, name: &str, phase: &str) {
        let status = json!({"phase": phase});
        self.pods().merge_status(name, status).await;
    }

    pub(crate) async fn annotate(&self, pod: &str, name: &str, value: Option<&str>) {
        self.pods().annotate(pod, json!({name: value})).await;
    }

    /// Hides all further changes of pods from the watch, until the gate is released.
    pub(crate) async fn hide_pods(&self) -> Gate {
        let gate = self.faults().hold_before(pod_watches());
        self.faults().cut_watches();
        gate.reached(1).await;
        gate
    }

    pub(crate) fn sent_binds(&self) -> usize {
        self.server.requests().count(Verb::Create, "pods/binding")
    }
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().unwrap().node_name.as_deref()
}

/// The card in the pod's record.
pub(crate) fn card_of(pod: &Pod) -> String {
    let record = &pod.metadata.annotations.as_ref().unwrap()[names::ALLOCATION];
    let record: Value = serde_json::from_str(record).unwrap();
    record["containers"][0]["cards"][0]["id"]
        .as_str()
        .unwrap()
        .to_owned()
}
