//! The timekeeper as a process.

use std::fs;
use std::path::Path;

use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_testkit::until_blocking;

use super::{Running, on_an_api_server, role};

/// A timekeeper with a database in this file. It has no other replica, so it runs without leader election.
fn start(kubeconfig: &str, database: &Path) -> Running {
    let flags = [
        ["--listen", "127.0.0.1:0"],
        ["--admin-listen", "127.0.0.1:0"],
        ["--kubeconfig", kubeconfig],
        ["--log-format=json", "--leader-elect=false"],
        ["--interval", "100ms"],
        ["--database", database.to_str().unwrap()],
    ];
    Running::start(role("timekeeper", &flags.concat()), "admin_listen")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_becomes_ready_without_budgets_and_ends_with_success_on_sigterm() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("ledger.db");
        let timekeeper = start(kubeconfig, &database);
        timekeeper.until_ready();
        assert!(timekeeper.is("/healthz", 200));
        timekeeper.terminate();
        assert!(database.exists());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timekeeper_with_a_damaged_ledger_stays_and_is_not_ready_until_the_file_is_restored() {
    on_an_api_server(|kubeconfig| {
        let directory = tempfile::tempdir().unwrap();
        let database = directory.path().join("ledger.db");
        fs::write(&database, "this is no ledger\n".repeat(1_000)).unwrap();
        let timekeeper = start(kubeconfig, &database);
        until_blocking("it says what is wrong", || {
            timekeeper.is("/readyz", 503) && timekeeper.says("/readyz", "damaged")
        });
        assert!(timekeeper.says("/readyz", "restore"));
        assert!(timekeeper.is("/healthz", 200));
        assert!(timekeeper.says("/metrics", "gpushare_timekeeper_ledger_healthy 0"));
        // The timekeeper neither creates a missing file nor fills an empty one: an operator may be restoring a backup.
        fs::remove_file(&database).unwrap();
        until_blocking("it misses the file", || {
            timekeeper.says("/readyz", "cannot open")
        });
        assert!(!database.exists());
        fs::write(&database, "").unwrap();
        until_blocking("it finds nothing in the file", || {
            timekeeper.says("/readyz", "there is no ledger in it")
        });
        assert_eq!(fs::metadata(&database).unwrap().len(), 0);
        let copy = directory.path().join("copy.db");
        drop(Sqlite::open(&copy).unwrap());
        until_blocking("the copy is closed", || {
            !copy.with_extension("db-wal").exists()
        });
        fs::rename(copy, &database).unwrap();
        timekeeper.until_ready();
        assert!(timekeeper.says("/metrics", "gpushare_timekeeper_ledger_healthy 1"));
        timekeeper.terminate();
    })
    .await;
}
