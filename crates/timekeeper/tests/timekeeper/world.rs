//! A cluster of API objects only, a clock that the test moves, and a ledger that outlives its timekeepers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gpushare_apiserver::Server;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{Card, CardId, Placement, Record, names};
use gpushare_daemon::Tasks;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::gpu_budget::{GpuBudget, GpuBudgetStatus};
use gpushare_kube::leader::Leadership;
use gpushare_kube::leader::election::Election;
use gpushare_kube::slim;
use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::Ledger;
use gpushare_ledger::store::database::{Database, Files};
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_testkit::cluster::Objects;
pub(crate) use gpushare_testkit::until;
use gpushare_testkit::{PATIENCE, model};
use gpushare_timekeeper::clock::Clock;
use gpushare_timekeeper::config::Pace;
use gpushare_timekeeper::{Parts, Timekeeper};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const NODE: &str = "n";
/// The size of a whole card, in GiB.
pub(crate) const WHOLE: u64 = 16;
pub(crate) const DAY: Seconds = 86_400;

pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) client: Client,
    /// The first second of a day that no real clock has reached.
    pub(crate) base: Seconds,
    now: Arc<AtomicI64>,
    directory: TempDir,
}

/// A timekeeper at work.
pub(crate) struct Running {
    pub(crate) timekeeper: Timekeeper,
    tasks: Tasks,
}

impl Running {
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Stops it, so that nothing of it is under way any more.
    pub(crate) async fn stop(self) {
        self.tasks.shutdown().cancel();
        self.tasks.finished(PATIENCE).await.unwrap();
    }
}

pub(crate) fn real_now() -> Seconds {
    jiff::Timestamp::now().as_second()
}

pub(crate) fn time(seconds: Seconds) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

impl World {
    /// A namespace `a`, a node with one card of [`WHOLE`] GiB, and the clock at the beginning of a day.
    pub(crate) async fn new() -> Self {
        // Every caller of the API is ada, who may do everything.
        let ada = json!({"authenticated": true, "user": {"username": "ada"},
            "audiences": [names::TIMEKEEPER_AUDIENCE]});
        let server = Server::builder()
            .crd(GpuBudget::crd())
            .review("authentication.k8s.io", "tokenreviews", move |_| {
                ada.clone()
            })
            .review(
                "authorization.k8s.io",
                "subjectaccessreviews",
                |_| json!({"allowed": true}),
            )
            .start()
            .await
            .unwrap();
        let client = server.client();
        let base = (real_now() / DAY + 2) * DAY;
        let world = Self {
            server,
            client,
            base,
            now: Arc::new(AtomicI64::new(base)),
            directory: tempfile::tempdir().unwrap(),
        };
        world.namespace("a").await;
        world.node(NODE).await;
        world
    }

    /// With a budget of so many seconds, which pays for the pod `p` on a whole card from the beginning.
    pub(crate) async fn with_a_pod(budget: i64) -> Self {
        let world = Self::new().await;
        world.budget_of_a(budget).await;
        world.running("p", WHOLE, 0).await;
        world
    }

    /// Stops the clock at this many seconds after the beginning.
    pub(crate) fn at(&self, second: Seconds) {
        self.now.store(self.base + second, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let now = self.now.clone();
        Clock::by(move || now.load(Ordering::SeqCst))
    }

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(Sqlite::open(&self.file()).unwrap())
    }

    /// Where the ledger is.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("ledger.db")
    }

    /// The ledger as the program opens it.
    pub(crate) async fn kept_ledger(&self) -> Ledger {
        let file = self.file();
        let database = Database::parse(file.to_str().unwrap(), Files::default());
        database.unwrap().open().await.unwrap()
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(None)
    }

    pub(crate) fn start_with(&self, election: Option<Election>) -> Running {
        self.start_on(self.ledger(), election, Pace::default())
    }

    pub(crate) fn start_on(
        &self,
        ledger: Ledger,
        election: Option<Election>,
        pace: Pace,
    ) -> Running {
        let leadership = match election {
            Some(_) => Leadership::following(),
            None => Leadership::alone(),
        };
        let parts = Parts {
            ledger,
            dialects: gpu::dialects(AliyunUnit::GiB),
            pace: Pace {
                interval: Duration::from_millis(50),
                status: Duration::from_millis(50),
                ..pace
            },
            clock: self.clock(),
            leadership,
        };
        let tasks = Tasks::new();
        let timekeeper = Timekeeper::new(parts, self.client.clone());
        timekeeper.follow(&tasks);
        timekeeper.lead(election, &tasks);
        Running { timekeeper, tasks }
    }

    // --- objects

    pub(crate) async fn namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.add(json!({"metadata": {"name": name}})).await;
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn node(&self, name: &str) {
        let card = Card {
            model: "Test T4".into(),
            ..model::card(&format!("GPU-{name}"), 0, WHOLE * 1024)
        };
        self.nodes().add(model::node(name, &[card])).await;
    }

    /// The kubelet has reported the node as ready, and the node was not lost since.
    pub(crate) async fn kubelet_reports(&self, node: &str) {
        let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        self.nodes().merge_status(node, ready).await;
    }

    pub(crate) async fn delete_node(&self, name: &str) {
        self.nodes().delete_now(name).await;
    }

    pub(crate) fn budgets(&self) -> Api<GpuBudget> {
        Api::all(self.client.clone())
    }

    /// A budget of so many seconds a day for a namespace, with further fields of the spec.
    pub(crate) async fn budget(&self, name: &str, seconds: i64, more: Value) -> GpuBudget {
        let mut spec = json!({"amount": seconds, "period": {"kind": "Day"}});
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget",
            "metadata": {"name": name}, "spec": spec,
        });
        self.budgets().add(budget).await
    }

    /// A budget for the namespace `a`.
    pub(crate) async fn budget_of_a(&self, seconds: i64) -> GpuBudget {
        let names = json!({"namespaces": {"names": ["a"]}});
        self.budget("a", seconds, names).await
    }

    pub(crate) async fn status(&self, budget: &str) -> GpuBudgetStatus {
        let budget = self.budgets().get(budget).await.unwrap();
        budget.status.unwrap_or_default()
    }

    /// Waits for the status of a budget.
    pub(crate) async fn until_status(
        &self,
        budget: &str,
        what: &str,
        holds: impl Fn(&GpuBudgetStatus) -> bool,
    ) -> GpuBudgetStatus {
        until(what, async || {
            let status = self.status(budget).await;
            if holds(&status) {
                Ok(status)
            } else {
                Err(status)
            }
        })
        .await
    }

    /// Waits until a budget shows so many seconds as used and as held.
    pub(crate) async fn until_used(&self, budget: &str, used: i64, held: i64) {
        let what = format!("{budget} has used {used} and holds {held}");
        self.until_status(budget, &what, |status| {
            status.used_seconds == Some(used) && status.held_seconds == Some(held)
        })
        .await;
    }

    pub(crate) fn pods(&self, namespace: &str) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A pod in `a` that asks for so much of a card, as the webhook lets it through where a budget pays.
    pub(crate) async fn create(&self, name: &str, gib: u64) -> Pod {
        self.create_with(name, gib, &[names::METERING]).await
    }

    pub(crate) async fn create_with(&self, name: &str, gib: u64, finalizers: &[&str]) -> Pod {
        let pod = json!({
            "metadata": {"name": name, "finalizers": finalizers},
            "spec": {"containers": [{"name": "main", "image": "none",
                "resources": {"limits": {names::ALIYUN_GPU_MEM: gib.to_string()}}}]},
        });
        self.pods("a").add(pod).await
    }

    /// Binds it to the card of a node and lets it run from so many seconds after the beginning.
    pub(crate) async fn run_on(&self, pod: &Pod, node: &str, second: Seconds) {
        let slim: slim::Pod = parse(serde_json::to_value(pod).unwrap());
        let facts = PodFacts::new(&slim, &gpu::dialects(AliyunUnit::GiB));
        let ask = facts.ask.unwrap().unwrap();
        let placement = Placement::on_one_card(&ask, &CardId::new(format!("GPU-{node}")));
        let record = Record::new(facts.uid, node.into(), &gpu::classes(), &placement);
        let name = pod.name_any();
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": name}, "target": {"kind": "Node", "name": node},
        });
        let (pods, params) = (self.pods("a"), PostParams::default());
        let _bound: Value = pods
            .create_subresource("binding", &name, &params, &binding)
            .await
            .unwrap();
        let started = time(self.base + second);
        self.write_status(&name, json!({
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": started}],
            "containerStatuses": [status(json!({"running": {"startedAt": started}}))],
        }))
        .await;
        // Written last: the server has recorded another time for the bind, and nothing is held without this annotation.
        let annotations = json!({names::ALLOCATION: record.encode()});
        pods.annotate(&name, annotations).await;
    }

    /// A pod in `a` that runs on the usual node.
    pub(crate) async fn running(&self, name: &str, gib: u64, second: Seconds) -> Pod {
        let pod = self.create(name, gib).await;
        self.run_on(&pod, NODE, second).await;
        pod
    }

    /// Its container has finished.
    pub(crate) async fn finish(&self, name: &str, second: Seconds) {
        let at = time(self.base + second);
        let ended = json!({"terminated": {"exitCode": 0, "startedAt": at, "finishedAt": at}});
        let ended = json!({"phase": "Succeeded", "containerStatuses": [status(ended)]});
        self.write_status(name, ended).await;
    }

    async fn write_status(&self, name: &str, status: Value) {
        self.pods("a").merge_status(name, status).await;
    }

    /// Deletes a pod at once, as after its containers have ended.
    pub(crate) async fn delete(&self, name: &str) {
        self.pods("a").delete_now(name).await;
    }

    pub(crate) async fn until_released(&self, name: &str) {
        until(&format!("{name} is released"), async || {
            let pod = self.pods("a").get_opt(name).await.unwrap();
            pod.is_none_or(|pod| pod.finalizers().is_empty())
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        until(&format!("{name} is gone"), async || {
            self.pods("a").get_opt(name).await.unwrap().is_none()
        })
        .await;
    }

    /// Reasons of Events on a budget.
    pub(crate) async fn events(&self, budget: &str) -> Vec<String> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let events = api.list(&ListParams::default()).await.unwrap();
        let about = |event: &Event| {
            let object = &event.involved_object;
            object.kind.as_deref() == Some("GpuBudget") && object.name.as_deref() == Some(budget)
        };
        let about = events.items.into_iter().filter(about);
        about.filter_map(|event| event.reason).collect()
    }

    // --- the ledger

    /// What each pod of `a` used, as name, seconds and thousandths of GPU-seconds, by name: pods that were bound in the same
    /// second are in no certain order.
    pub(crate) async fn statement(&self) -> Vec<(String, Seconds, i64)> {
        Self::statement_of(&self.ledger()).await
    }

    pub(crate) async fn statement_of(ledger: &Ledger) -> Vec<(String, Seconds, i64)> {
        let span = Span {
            start: 0,
            end: Seconds::MAX / 4,
        };
        let lines = ledger.statement("a", span).await.unwrap();
        let line = |line: gpushare_ledger::store::Line| {
            (line.name, line.seconds, line.amount.micros() / 1_000)
        };
        let mut statement: Vec<_> = lines.into_iter().map(line).collect();
        statement.sort();
        statement
    }

    pub(crate) async fn until_statement(&self, expected: &[(&str, Seconds, i64)]) {
        let expected: Vec<(String, Seconds, i64)> = expected
            .iter()
            .map(|(name, seconds, thousandths)| ((*name).to_owned(), *seconds, *thousandths))
            .collect();
        until("the statement is as expected", async || {
            let statement = self.statement().await;
            (statement == expected).then_some(()).ok_or(statement)
        })
        .await;
        self.audit().await;
    }

    pub(crate) async fn audit(&self) {
        let problems = self.ledger().audit().await.unwrap();
        assert_eq!(problems, [""; 0]);
    }
}

fn status(state: Value) -> Value {
    let mut status = json!({
        "name": "main", "image": "none", "imageID": "", "ready": false, "restartCount": 0,
    });
    status["state"] = state;
    status
}

fn parse<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}
