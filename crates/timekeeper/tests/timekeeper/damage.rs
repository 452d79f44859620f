//! The ledger's database is damaged or cannot be used: every budget reports it, nothing is charged into it or
//! forgotten, and there is a way to recover.

use std::fs;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpushare_core::names;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Ledger, Read, ReadAnswer, Store, StoreError, Write, WriteAnswer};
use gpushare_timekeeper::config::Pace;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{NODE, Running, WHOLE, World, until};

const PAGE: usize = 4_096;

impl Running {
    async fn until_ready(&self) {
        until("it is ready", async || self.probe("/readyz").await.0 == 200).await;
    }

    async fn is_healthy(&self) -> bool {
        let (_, metrics) = self.probe("/metrics").await;
        metrics.contains("gpushare_timekeeper_ledger_healthy 1\n")
    }
}

impl World {
    /// A world with a pod, and a timekeeper that charges it and opens the ledger as the program does.
    async fn charging_kept() -> (Self, Running) {
        let world = Self::with_a_pod(36_000).await;
        world.at(700);
        let running = world.start_kept().await;
        world.charges_until(700).await;
        (world, running)
    }

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
}

#[tokio::test]
async fn a_ledger_that_is_damaged_at_work_is_told_everywhere_and_a_backup_leads_back() {
    let (world, running) = World::charging_kept().await;
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
    assert_eq!(world.pod("p").await.finalizers().len(), 1);

    // The timekeeper has closed the file, so it may be replaced while it runs.
    world.at(2_000);
    world.restore(&copy);
    world.until_charged("a").await;
    running.until_ready().await;
    assert!(running.is_healthy().await);
    world.until_gone("p").await;
    world.ends_with(running, &[("p", 1_100, 1_100_000)]).await;
}

#[tokio::test]
async fn a_backup_may_also_be_restored_while_no_timekeeper_runs() {
    let (world, running) = World::charging_kept().await;
    let copy = world.back_up();
    world.charges_until(1_300).await;
    world.damage().await;
    world.at(1_600);
    world.until_not_ready("a", "LedgerCorrupted").await;
    running.stop().await;
    world.restore(&copy);
    world.finish("p", 1_650).await;
    world.at(2_000);
    let running = world.start_kept().await;
    world.until_charged("a").await;
    world.ends_with(running, &[("p", 1_650, 1_650_000)]).await;
}

/// A ledger that the test can make fail.
#[derive(Debug)]
struct Failing {
    ledger: Sqlite,
    fails: Arc<AtomicBool>,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

impl Store for Failing {
    fn write(&self, write: Write) -> Answer<'_, WriteAnswer> {
        if self.fails.load(Ordering::SeqCst) {
            return Box::pin(async { Err(StoreError::Stopped) });
        }
        self.ledger.write(write)
    }

    fn read(&self, read: Read) -> Answer<'_, ReadAnswer> {
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
}

#[tokio::test]
async fn nobody_is_evicted_for_a_budget_while_the_ledger_cannot_be_used() {
    let world = World::new().await;
    let spec = json!({"whenExhausted": "EvictWithGrace", "graceSeconds": 600});
    world.paying("a", 100, spec).await;
    world.running("p", WHOLE, 0).await;
    world.at(200);
    let (running, fails) = world.start_failing();
    running.enforces();
    world.until_marked("p", names::EVICT_AT, true).await;
    fails.store(true, Ordering::SeqCst);
    world.at(700);
    world.until_not_ready("a", "LedgerUnavailable").await;
    world.at(5_000);
    // Once the enforcer has marked the second witness, it has looked at the first pod after its time had come.
    for witness in ["one", "two"] {
        world.running(witness, WHOLE, 0).await;
        world
            .until_marked(witness, names::OVER_BUDGET_MARK, true)
            .await;
    }
    assert!(!world.is_ending("p").await);
    fails.store(false, Ordering::SeqCst);
    world.until_evicted("p").await;
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
    world.charges_until(700).await;
    running.until_ready().await;
    fails.store(true, Ordering::SeqCst);
    world.vanish("vanishes").await;

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
    assert_eq!(world.pod("ends").await.finalizers().len(), 1);

    fails.store(false, Ordering::SeqCst);
    world.until_charged("a").await;
    running.until_ready().await;
    assert!(running.is_healthy().await);
    // If the timekeeper had forgotten that it saw the pod go, the charge would end at 600, as in the ledger.
    let used = [("ends", 800, 400_000), ("vanishes", 700, 350_000)];
    world.ends_with(running, &used).await;
}
