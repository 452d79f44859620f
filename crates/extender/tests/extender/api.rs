//! An extender that follows an API server, and the server's side of it.

use std::collections::BTreeMap;
use std::time::Duration;

use gpushare_apiserver::{Gate, On, Server, Verb};
use gpushare_core::names;
use gpushare_daemon::Tasks;
use gpushare_extender::Extender;
use gpushare_extender::config::Config;
use gpushare_testkit::cluster::Objects;
pub(crate) use gpushare_testkit::until;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cluster::{self, call, config, get, pod_of_gib};
use crate::kubernetes::{ExtenderBindingResult, ExtenderFilterResult};

pub(crate) const BIND_TIMEOUT: Duration = Duration::from_millis(200);

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

impl Following {
    /// A server with these nodes, and an extender that has listed them.
    pub(crate) async fn start(nodes: &[Value]) -> Self {
        let following = Self::prepare(nodes).await;
        following.follow().await;
        following
    }

    /// Like [`Self::start`], but the extender does not follow the server yet.
    pub(crate) async fn prepare(nodes: &[Value]) -> Self {
        Self::prepare_with(config(), nodes).await
    }

    pub(crate) async fn prepare_with(mut config: Config, nodes: &[Value]) -> Self {
        let server = Server::start().await.unwrap();
        let mut config_of_client = kube::Config::new(server.url().parse().unwrap());
        config_of_client.default_retry = false;
        let client = Client::try_from(config_of_client).unwrap();
        let api: Api<Node> = Api::all(client.clone());
        for node in nodes {
            api.add(node.clone()).await;
        }
        let tasks = Tasks::new();
        config.bind_timeout = BIND_TIMEOUT;
        let extender = Extender::new(config, client.clone(), tasks.clone());
        Self {
            server,
            client,
            extender,
            tasks,
        }
    }

    /// Replaces the extender by another one, which does not follow the server yet.
    pub(crate) fn restarted(self) -> Self {
        self.restarted_with(config())
    }

    pub(crate) fn restarted_with(self, mut config: Config) -> Self {
        config.bind_timeout = BIND_TIMEOUT;
        self.replaced(config)
    }

    /// Like [`Self::restarted`], for tests in which a bind must not time out.
    pub(crate) fn with_bind_timeout(self, bind_timeout: Duration) -> Self {
        self.replaced(Config {
            bind_timeout,
            ..config()
        })
    }

    fn replaced(self, config: Config) -> Self {
        self.tasks.shutdown().cancel();
        let tasks = Tasks::new();
        let extender = Extender::new(config, self.client.clone(), tasks.clone());
        Self {
            extender,
            tasks,
            ..self
        }
    }

    pub(crate) async fn follow(&self) {
        self.extender.follow(&self.tasks);
        until("the extender is ready", async || {
            get(&self.extender, "/readyz").await.0 == 200
        })
        .await;
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates a pod that asks for memory of one card.
    pub(crate) async fn create(&self, name: &str, gib: u64) -> Pod {
        let mut pod = pod_of_gib(name, gib);
        pod["metadata"] = json!({"name": name});
        pod["spec"]["containers"][0]["image"] = json!("none");
        self.pods().add(pod).await
    }

    pub(crate) async fn read(&self, name: &str) -> Pod {
        self.pods().get(name).await.unwrap()
    }

    /// Sends a bind as the scheduler does; returns its error.
    pub(crate) async fn bind(&self, pod: &Pod, node: &str) -> String {
        bind(&self.extender, pod, node).await
    }

    /// A bind to n1 that the server has received and does not carry out until the gate is released.
    pub(crate) async fn begin_bind(
        &self,
        extender: &Extender,
        pod: &Pod,
    ) -> (Gate, JoinHandle<String>) {
        let gate = self.server.faults().hold_before(binds());
        let (extender, pod) = (extender.clone(), pod.clone());
        let call = tokio::spawn(async move { bind(&extender, &pod, "n1").await });
        gate.reached(1).await;
        (gate, call)
    }

    pub(crate) async fn filter(&self, pod: &Pod, nodes: &[&str]) -> ExtenderFilterResult {
        let body = json!({"Pod": pod, "NodeNames": nodes});
        call(&self.extender, "filter", &body).await
    }

    /// Deletes a pod at once, as after its containers have ended.
    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete_now(name).await;
    }

    pub(crate) async fn set_phase(&self, name: &str, phase: &str) {
        let status = json!({"phase": phase});
        self.pods().merge_status(name, status).await;
    }

    /// Bookings by state, as the metrics show them; states without any are left out.
    pub(crate) async fn bookings(&self) -> BTreeMap<String, u64> {
        let (_, metrics) = get(&self.extender, "/metrics").await;
        metrics
            .lines()
            .filter_map(|line| line.strip_prefix("gpushare_extender_bookings{state=\""))
            .filter_map(|line| line.split_once("\"} "))
            .map(|(state, count)| (state.to_owned(), count.parse().unwrap()))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    pub(crate) async fn until_bookings(&self, expected: &[(&str, u64)]) {
        let expected: BTreeMap<String, u64> = expected
            .iter()
            .map(|(state, count)| ((*state).to_owned(), *count))
            .collect();
        until(&format!("the bookings are {expected:?}"), async || {
            self.bookings().await == expected
        })
        .await;
    }

    /// Hides all further changes of pods from the watch, until the gate is released.
    pub(crate) async fn hide_pods(&self) -> Gate {
        let gate = self.server.faults().hold_before(pod_watches());
        self.server.faults().cut_watches();
        gate.reached(1).await;
        gate
    }

    pub(crate) fn sent_binds(&self) -> usize {
        self.server.requests().count(Verb::Create, "pods/binding")
    }
}

pub(crate) async fn bind(extender: &Extender, pod: &Pod, node: &str) -> String {
    let metadata = &pod.metadata;
    let body = json!({
        "PodName": metadata.name, "PodNamespace": metadata.namespace, "PodUID": metadata.uid,
        "Node": node,
    });
    let result: ExtenderBindingResult = cluster::call(extender, "bind", &body).await;
    result.error
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
