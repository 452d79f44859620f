//! The ledger's database is damaged or cannot be used: every budget reports it, nothing is charged into it or
//! forgotten, and there is a way to recover.

use std::fs;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::Request;
use gpushare_core::names;
use gpushare_kube::gpu_budget::GpuBudgetStatus;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Found, Ledger, Read, Store, StoreError, Write, Written};
use gpushare_testkit::cluster::Objects;
use gpushare_timekeeper::config::Pace;
use gpushare_timekeeper::enforce::Enforcer;
use http_body_util::BodyExt;
use kube::ResourceExt;
use serde_json::json;
use tower::ServiceExt;

use crate::world::{NODE, Running, WHOLE, World, until};

const PAGE: usize = 4_096;

impl Running {
    async fn probe(&self, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let response = self.timekeeper.admin_router().oneshot(request).await;
        let response = response.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn until_ready(&self) {
        until("it is ready", async || self.probe("/readyz").await.0 == 200).await;
    }

    async fn is_healthy(&self) -> bool {
        let (_, metrics) = self.probe("/metrics").await;
        metrics.contains("gpushare_timekeeper_ledger_healthy 1\n")
    }
}

impl World {
    /// As docs/operations.md says.
    fn back_up(&self) -> PathBuf {
        let copy = self.file().with_file_name("copy.db");
        let connection = rusqlite::Connection::open(self.file()).unwrap();
        let into = copy.to_str().unwrap();
        connection.execute("VACUUM INTO ?1", [into]).unwrap();
        copy
    }

    /// Overwrites everything but the first page, as a broken disk might.
    async fn damage(&self) {
        // What is still in the log would be read from there.
        until("everything is in the file", async || {
            let connection = rusqlite::Connection::open(self.file()).unwrap();
            let emptied = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                row.get::<_, i64>(0)
            });
            emptied.unwrap() == 0
        })
        .await;
        let file = fs::OpenOptions::new()
            .write(true)
            .open(self.file())
            .unwrap();
        let length = usize::try_from(file.metadata().unwrap().len()).unwrap();
        assert!(length > PAGE, "{length}");
        let noise = vec![0x5a; length - PAGE];
        file.write_all_at(&noise, PAGE as u64).unwrap();
    }

    /// As docs/operations.md says.
    fn restore(&self, copy: &Path) {
        let file = self.file();
        for damaged in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
            let damaged = file.with_file_name(damaged);
            // The log is missing if no process has the file open.
            let _may_be_missing = fs::remove_file(damaged);
        }
        fs::rename(copy, file).unwrap();
    }

    async fn until_not_ready(&self, budget: &str, reason: &str) -> GpuBudgetStatus {
        let what = format!("{budget} is not Ready: {reason}");
        self.until_status(budget, &what, |status| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| {
                condition.type_ == "Ready"
                    && condition.status == "False"
                    && condition.reason == reason
            })
        })
        .await
    }

    async fn until_charged(&self, budget: &str) {
        self.until_status(budget, "it is Ready", |status| {
            let mut conditions = status.conditions.iter();
            conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
        .await;
    }
}

#[tokio::test]
async fn a_ledger_that_is_damaged_at_work_is_told_everywhere_and_a_backup_leads_back() {
    let world = World::with_a_pod(36_000).await;
    world.at(700);
    let running = world.start_on(world.kept_ledger().await, None, Pace::default());
    world.until_used("a", 600, 100).await;
    running.until_ready().await;
    let copy = world.back_up();
    world.damage().await;
    world.at(1_000);

    until("it is no longer ready", async || {
        running.probe("/readyz").await.0 == 503
    })
    .await;
    let told = world.until_not_ready("a", "LedgerCorrupted").await;
    let message = &told.conditions[0].message;
    assert!(
        message.contains("damaged") && message.contains("restore a backup"),
        "{message}"
    );
    // The last known numbers are still there.
    assert!(
        told.used_seconds.is_some_and(|used| used >= 600),
        "{told:?}"
    );
    let (status, reason) = running.probe("/readyz").await;
    assert_eq!(status, 503, "{reason}");
    assert!(
        reason.contains("damaged") && reason.contains("restore a backup"),
        "{reason}"
    );
    assert!(!running.is_healthy().await);

    // Pods that end meanwhile are not released, and budgets that are created meanwhile report the problem too.
    world.finish("p", 1_100).await;
    world.delete("p").await;
    world.budget("later", 100, json!({})).await;
    world.until_not_ready("later", "LedgerCorrupted").await;
    let kept = world.pods("a").get("p").await.unwrap();
    assert_eq!(kept.finalizers().len(), 1);

    // The timekeeper has closed the file, so it may be replaced while it runs.
    world.at(2_000);
    world.restore(&copy);
    world.until_charged("a").await;
    running.until_ready().await;
    assert!(running.is_healthy().await);
    world.until_gone("p").await;
    world.until_statement(&[("p", 1_100, 1_100_000)]).await;
    running.stop().await;
}

#[tokio::test]
async fn a_backup_may_also_be_restored_while_no_timekeeper_runs() {
    let world = World::with_a_pod(36_000).await;
    world.at(700);
    let running = world.start_on(world.kept_ledger().await, None, Pace::default());
    world.until_used("a", 600, 100).await;
    let copy = world.back_up();
    world.at(1_300);
    world.until_used("a", 1_200, 100).await;
    world.damage().await;
    world.at(1_600);
    world.until_not_ready("a", "LedgerCorrupted").await;
    running.stop().await;
    world.restore(&copy);
    world.finish("p", 1_650).await;
    world.at(2_000);
    let running = world.start_on(world.kept_ledger().await, None, Pace::default());
    world.until_charged("a").await;
    world.until_released("p").await;
    world.until_statement(&[("p", 1_650, 1_650_000)]).await;
    running.stop().await;
}

/// A ledger that the test can make fail.
#[derive(Debug)]
struct Failing {
    ledger: Sqlite,
    fails: Arc<AtomicBool>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

impl Store for Failing {
    fn write(&self, write: Write) -> Answer<'_, Written> {
        if self.fails.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Stopped) });
        }
        self.ledger.write(write)
    }

    fn read(&self, read: Read) -> Answer<'_, Found> {
        self.ledger.read(read)
    }
}

impl World {
    /// A timekeeper whose ledger cannot be written while the returned flag is set.
    fn start_failing(&self) -> (Running, Arc<AtomicBool>) {
        let fails = Arc::new(AtomicBool::new(false));
        let failing = Failing {
            ledger: Sqlite::open(&self.file()).unwrap(),
            fails: fails.clone(),
        };
        let running = self.start_on(Ledger::new(failing), None, Pace::default());
        (running, fails)
    }

    async fn until_annotated(&self, pod: &str, name: &str) {
        until(&format!("{name} stands on {pod}"), async || {
            let pod = self.pods("a").get(pod).await.unwrap();
            pod.annotations().contains_key(name)
        })
        .await;
    }

    async fn is_ending(&self, pod: &str) -> bool {
        let pod = self.pods("a").get(pod).await.unwrap();
        pod.metadata.deletion_timestamp.is_some()
    }
}

#[tokio::test]
async fn nobody_is_evicted_for_a_budget_while_the_ledger_cannot_be_used() {
    let world = World::new().await;
    let spec = json!({"namespaces": {"names": ["a"]}, "whenExhausted": "EvictWithGrace", "graceSeconds": 600});
    world.budget("a", 100, spec).await;
    world.running("p", WHOLE, 0).await;
    world.at(200);
    let (running, fails) = world.start_failing();
    Enforcer::new(running.timekeeper.clone()).start(running.tasks());
    world.until_annotated("p", names::EVICT_AT).await;
    fails.store(true, Ordering::SeqCst);
    world.at(700);
    world.until_not_ready("a", "LedgerUnavailable").await;
    world.at(5_000);
    // Once the enforcer has marked the second witness, it has looked at the first pod after its time had come.
    for witness in ["one", "two"] {
        world.running(witness, WHOLE, 0).await;
        world
            .until_annotated(witness, names::OVER_BUDGET_MARK)
            .await;
    }
    assert!(!world.is_ending("p").await);
    fails.store(false, Ordering::SeqCst);
    until("p is evicted", async || world.is_ending("p").await).await;
    running.stop().await;
}

#[tokio::test]
async fn a_ledger_that_fails_again_and_again_is_told_and_everything_is_made_up_for() {
    let world = World::new().await;
    // Deletions are dated by the real clock, which is days behind. While a kubelet reports, they end nothing.
    world.kubelet_reports(NODE).await;
    world.budget_of_a(36_000).await;
    for pod in ["ends", "vanishes"] {
        world.running(pod, WHOLE / 2, 0).await;
    }
    world.at(700);
    let (running, fails) = world.start_failing();
    world.until_used("a", 600, 100).await;
    running.until_ready().await;
    fails.store(true, Ordering::SeqCst);
    world.delete("vanishes").await;
    let by_force = json!({"metadata": {"finalizers": null}});
    world.pods("a").merge("vanishes", by_force).await;
    world.until_gone("vanishes").await;

    // Only this pod's end is to be written yet, so a round that fails to write it has seen the pod go, at 700.
    let told = world.until_not_ready("a", "LedgerUnavailable").await;
    let message = &told.conditions[0].message;
    assert!(
        message.contains("the ledger's writer has stopped"),
        "{message}"
    );
    let (status, reason) = running.probe("/readyz").await;
    assert_eq!(status, 503, "{reason}");
    assert!(!running.is_healthy().await);
    world.finish("ends", 800).await;
    world.at(1_000);
    let kept = world.pods("a").get("ends").await.unwrap();
    assert_eq!(kept.finalizers().len(), 1);

    fails.store(false, Ordering::SeqCst);
    world.until_charged("a").await;
    running.until_ready().await;
    assert!(running.is_healthy().await);
    world.until_released("ends").await;
    // If the timekeeper had forgotten that it saw the pod go, the charge would end at 600, as in the ledger.
    world
        .until_statement(&[("ends", 800, 400_000), ("vanishes", 700, 350_000)])
        .await;
    running.stop().await;
}
