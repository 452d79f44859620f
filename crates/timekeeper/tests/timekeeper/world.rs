//! A cluster of API objects only, a clock that the test moves, and a ledger that outlives its timekeepers.

mod budgets;
mod pods;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use gpushare_apiserver::Server;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{Card, names};
use gpushare_daemon::Tasks;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::leader::Leadership;
use gpushare_kube::leader::election::Election;
use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::database::{Database, Files};
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Ledger, Line};
use gpushare_testkit::cluster::Objects;
pub(crate) use gpushare_testkit::until;
use gpushare_testkit::{PATIENCE, model};
use gpushare_timekeeper::clock::Clock;
use gpushare_timekeeper::config::Pace;
use gpushare_timekeeper::enforce::Enforcer;
use gpushare_timekeeper::{Parts, Timekeeper};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Api, Client, CustomResourceExt};
use serde_json::json;
use tempfile::TempDir;
use tower::ServiceExt;

pub(crate) const NODE: &str = "n";
/// The size of a whole card, in GiB.
pub(crate) const WHOLE: u64 = 16;
pub(crate) const DAY: Seconds = 86_400;

/// What a pod used: its name, seconds and thousandths of GPU-seconds.
pub(crate) type Used<'a> = (&'a str, Seconds, i64);

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
    /// Enforces budgets too.
    pub(crate) fn enforces(&self) {
        Enforcer::new(self.timekeeper.clone()).start(&self.tasks);
    }

    /// What the admin port answers.
    pub(crate) async fn probe(&self, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        answer(self.timekeeper.admin_router(), request).await
    }

    /// Stops the timekeeper, and waits until none of its work is under way.
    pub(crate) async fn stop(self) {
        self.tasks.shutdown().cancel();
        self.tasks.finished(PATIENCE).await.unwrap();
    }
}

pub(crate) async fn answer(router: Router, request: Request<Body>) -> (u16, String) {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
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

    /// With a budget of so many seconds for the namespace.
    pub(crate) async fn with_budget(seconds: i64) -> Self {
        let world = Self::new().await;
        world.budget_of_a(seconds).await;
        world
    }

    /// With a budget of so many seconds, which pays for the pod `p` on a whole card from the beginning.
    pub(crate) async fn with_a_pod(budget: i64) -> Self {
        let world = Self::with_budget(budget).await;
        world.running("p", WHOLE, 0).await;
        world
    }

    /// With a pod as above, which has ended at this second.
    pub(crate) async fn with_an_ended_pod(budget: i64, second: Seconds) -> Self {
        let world = Self::with_a_pod(budget).await;
        world.finish("p", second).await;
        world
    }

    /// With a pod as above, and a timekeeper that has charged it until this second.
    pub(crate) async fn charging(budget: i64, second: Seconds) -> (Self, Running) {
        let world = Self::with_a_pod(budget).await;
        let running = world.start_at(second);
        world.charges_until(second).await;
        (world, running)
    }

    /// Stops the clock at this many seconds after the beginning.
    pub(crate) fn at(&self, second: Seconds) {
        self.now.store(self.base + second, Ordering::SeqCst);
    }

    // --- timekeepers

    pub(crate) fn ledger(&self) -> Ledger {
        Ledger::new(Sqlite::open(&self.file()).unwrap())
    }

    /// Where the ledger is.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.path().join("ledger.db")
    }

    /// A timekeeper with the ledger as the program opens it.
    pub(crate) async fn start_kept(&self) -> Running {
        let file = self.file();
        let database = Database::parse(file.to_str().unwrap(), Files::default());
        let ledger = database.unwrap().open().await.unwrap();
        self.start_on(ledger, None, Pace::default())
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(None)
    }

    pub(crate) fn start_at(&self, second: Seconds) -> Running {
        self.at(second);
        self.start()
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
        let pace = Pace {
            interval: Duration::from_millis(50),
            status: Duration::from_millis(50),
            ..pace
        };
        let tasks = Tasks::new();
        let parts = self.parts(ledger, leadership, pace);
        let timekeeper = Timekeeper::new(parts, self.client.clone());
        timekeeper.follow(&tasks);
        timekeeper.lead(election, &tasks);
        Running { timekeeper, tasks }
    }

    /// What a timekeeper by the clock of the test is made of.
    pub(crate) fn parts(&self, ledger: Ledger, leadership: Leadership, pace: Pace) -> Parts {
        let now = self.now.clone();
        Parts {
            ledger,
            dialects: gpu::dialects(AliyunUnit::GiB),
            pace,
            clock: Clock::by(move || now.load(Ordering::SeqCst)),
            leadership,
        }
    }

    // --- namespaces and nodes

    pub(crate) async fn namespace(&self, name: &str) {
        let api: Api<Namespace> = Api::all(self.client.clone());
        api.add(json!({"metadata": {"name": name}})).await;
    }

    fn nodes(&self) -> Api<Node> {
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

    // --- the ledger

    /// What each pod of `a` used, by name: pods that were bound in the same second are in no certain order.
    pub(crate) async fn statement(&self) -> Vec<(String, Seconds, i64)> {
        statement_of(&self.ledger()).await
    }

    pub(crate) async fn until_statement(&self, expected: &[Used<'_>]) {
        let expected = lines(expected);
        until("the statement is as expected", async || {
            let statement = self.statement().await;
            (statement == expected).then_some(()).ok_or(statement)
        })
        .await;
        self.audit().await;
    }

    /// Waits until all that pods hold is settled.
    pub(crate) async fn until_settled(&self) {
        until("everything is settled", async || {
            let unsettled = self.ledger().unsettled().await.unwrap();
            unsettled.is_empty().then_some(()).ok_or(unsettled)
        })
        .await;
    }

    /// Waits until these pods are released and stated like this, and stops the timekeeper.
    pub(crate) async fn ends_with(&self, running: Running, statement: &[Used<'_>]) {
        for (pod, ..) in statement {
            self.until_released(pod).await;
        }
        self.until_statement(statement).await;
        running.stop().await;
    }

    pub(crate) async fn audit(&self) {
        let problems = self.ledger().audit().await.unwrap();
        assert_eq!(problems, [""; 0]);
    }
}

pub(crate) async fn statement_of(ledger: &Ledger) -> Vec<(String, Seconds, i64)> {
    let always = Span::new(0, Seconds::MAX / 4);
    let stated = ledger.statement("a", always).await.unwrap();
    let line = |line: Line| (line.name, line.seconds, line.amount.micros() / 1_000);
    let mut statement: Vec<_> = stated.into_iter().map(line).collect();
    statement.sort();
    statement
}

/// A statement with these lines.
pub(crate) fn lines(used: &[Used<'_>]) -> Vec<(String, Seconds, i64)> {
    let line = |used: &Used| (used.0.to_owned(), used.1, used.2);
    used.iter().map(line).collect()
}
