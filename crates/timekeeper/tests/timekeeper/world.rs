//! A cluster of API objects only, a clock that the test moves, and a ledger that outlives its timekeepers.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gpushare_apiserver::Server;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{Amounts, Card, CardId, Placement, Record, inventory, names};
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
use gpushare_timekeeper::clock::Clock;
use gpushare_timekeeper::config::Pace;
use gpushare_timekeeper::{Parts, Timekeeper};
use k8s_openapi::api::core::v1::{Event, Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const NODE: &str = "n";
/// The size of a whole card, in GiB.
pub(crate) const WHOLE: u64 = 16;
pub(crate) const DAY: Seconds = 86_400;
/// Generous: what is waited for takes a moment.
const PATIENCE: Duration = Duration::from_mins(1);

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

pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
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
        let object = parse(json!({"metadata": {"name": name}}));
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub(crate) async fn node(&self, name: &str) {
        let card = Card {
            id: CardId::new(format!("GPU-{name}")),
            class: gpu::CLASS.into(),
            index: 0,
            model: "Test T4".into(),
            capacity: Amounts::of(gpu::MEMORY, WHOLE * 1024).with(gpu::CORE, 100),
            healthy: true,
        };
        let cards = inventory::encode(&gpu::classes(), &[card]);
        let node = json!({"metadata": {"name": name, "annotations": {names::CARDS: cards}}});
        let (nodes, params) = (self.nodes(), PostParams::default());
        nodes.create(&params, &parse(node)).await.unwrap();
    }

    /// The kubelet has reported the node as ready, and the node was not lost since.
    pub(crate) async fn kubelet_reports(&self, node: &str) {
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        let (params, patch) = (PatchParams::default(), Patch::Merge(ready));
        let nodes = self.nodes();
        nodes.patch_status(node, &params, &patch).await.unwrap();
    }

    pub(crate) async fn delete_node(&self, name: &str) {
        let params = DeleteParams::default();
        self.nodes().delete(name, &params).await.unwrap();
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
        let (budgets, params) = (self.budgets(), PostParams::default());
        budgets.create(&params, &parse(budget)).await.unwrap()
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
        let mut last = GpuBudgetStatus::default();
        let wait = async {
            loop {
                last = self.status(budget).await;
                if holds(&last) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "waited in vain until {what}: {last:?}");
        last
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
        let created = self
            .pods("a")
            .create(&PostParams::default(), &parse(pod))
            .await;
        created.unwrap()
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
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let params = PatchParams::default();
        pods.patch(&name, &params, &patch).await.unwrap();
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
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.pods("a")
            .patch_status(name, &params, &patch)
            .await
            .unwrap();
    }

    /// Deletes a pod at once, as after its containers have ended.
    pub(crate) async fn delete(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        self.pods("a").delete(name, &now).await.unwrap();
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
        let mut last = Vec::new();
        let wait = async {
            while last != expected {
                tokio::time::sleep(Duration::from_millis(10)).await;
                last = self.statement().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(
            waited.is_ok(),
            "waited in vain for the statement {expected:?}: {last:?}"
        );
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
