//! Damage to a database is detected, and nothing is written to it before it is repaired.

use std::os::unix::fs::FileExt;

use gpushare_ledger::store::{Batch, Epoch, Ledger, StoreError};

use crate::conformance::{charge, on_both_databases};
use crate::database::{Database, Kind};

on_both_databases!(
    a_ledger_that_misses_a_table_is_closed_until_it_is_there_again,
    a_check_finds_accounts_that_are_out_of_balance,
    a_database_of_a_newer_version_is_waited_for,
);

async fn record(ledger: &Ledger, epoch: Epoch, from: i64) -> Result<(), StoreError> {
    let changes = vec![charge("p", from, from + 100, &["leaf", "root"])];
    let batch = Batch::new(epoch, 0, changes);
    ledger.record(batch).await.map(drop)
}

async fn a_ledger_that_misses_a_table_is_closed_until_it_is_there_again(database: Database) {
    let ledger = database.kept().open().await.unwrap();
    ledger.check().await.unwrap();
    let epoch = ledger.take_over("test").await.unwrap();
    record(&ledger, epoch, 0).await.unwrap();
    let tamper = async |sql: &str| database.tamper(sql).await.unwrap();
    tamper("ALTER TABLE inventories RENAME TO taken").await;
    let found = ledger.inventories().await.unwrap_err();
    assert!(found.is_damage(), "{found:?}");
    // Refused although the tables that this write needs are intact.
    let refused = record(&ledger, epoch, 100).await.unwrap_err();
    assert!(matches!(refused, StoreError::Closed(_)), "{refused:?}");
    let still = ledger.check().await.unwrap_err();
    assert!(still.is_damage(), "{still:?}");
    tamper("ALTER TABLE taken RENAME TO inventories").await;
    ledger.check().await.unwrap();
    record(&ledger, epoch, 100).await.unwrap();
    assert_eq!(ledger.audit().await.unwrap(), [""; 0]);
}

async fn a_check_finds_accounts_that_are_out_of_balance(database: Database) {
    let ledger = database.open().await;
    let epoch = ledger.take_over("test").await.unwrap();
    record(&ledger, epoch, 0).await.unwrap();
    ledger.check().await.unwrap();
    let forgery = "UPDATE accounts SET paid_in = paid_in + 5 WHERE kind = 'usage'";
    database.tamper(forgery).await.unwrap();
    let found = ledger.check().await.unwrap_err();
    assert!(found.is_damage(), "{found:?}");
    assert!(found.to_string().contains("sum to zero"), "{found}");
}

async fn a_database_of_a_newer_version_is_waited_for(database: Database) {
    let ledger = database.open().await;
    ledger.take_over("test").await.unwrap();
    let (newer, back) = match &database {
        Database::Sqlite(_) => ("PRAGMA user_version = 99", "PRAGMA user_version = 3"),
        Database::Postgres { .. } => (
            "INSERT INTO ledger_schema VALUES (99)",
            "DELETE FROM ledger_schema WHERE version = 99",
        ),
    };
    database.tamper(newer).await.unwrap();
    let found = ledger.check().await.unwrap_err();
    assert!(matches!(found, StoreError::Newer { .. }), "{found:?}");
    let waiting = database.kept().open_or_wait().await.unwrap();
    let refused = waiting.take_over("test").await.unwrap_err();
    assert!(refused.to_string().contains("version 99"), "{refused}");
    let still = waiting.check().await.unwrap_err();
    assert!(matches!(still, StoreError::Newer { .. }), "{still:?}");
    database.tamper(back).await.unwrap();
    waiting.check().await.unwrap();
    waiting.take_over("test").await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_replaced_is_opened_before_anything_more_is_written() {
    let database = Database::new(Kind::Sqlite).await;
    let ledger = database.kept().open().await.unwrap();
    let epoch = ledger.take_over("test").await.unwrap();
    record(&ledger, epoch, 0).await.unwrap();
    let beside = |name: &str| database.file().with_file_name(name);
    let backup = format!("VACUUM INTO '{}'", beside("copy.db").display());
    database.tamper(&backup).await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let (old, moved) = (format!("ledger.db{suffix}"), format!("moved.db{suffix}"));
        std::fs::rename(beside(&old), beside(&moved)).unwrap();
    }
    std::fs::rename(beside("copy.db"), database.file()).unwrap();

    let found = ledger.check().await.unwrap_err();
    assert!(matches!(found, StoreError::Replaced), "{found:?}");
    let refused = record(&ledger, epoch, 100).await.unwrap_err();
    assert!(matches!(refused, StoreError::Closed(_)), "{refused:?}");
    ledger.check().await.unwrap();
    record(&ledger, epoch, 100).await.unwrap();
    let now = database.open().await.pod(&"p".into()).await.unwrap();
    assert_eq!(now.unwrap().through, 200);
}

#[tokio::test]
async fn a_check_finds_every_page_of_a_file_that_was_overwritten() {
    const PAGE: usize = 4_096;
    let database = Database::new(Kind::Sqlite).await;
    let ledger = database.open().await;
    let epoch = ledger.take_over("test").await.unwrap();
    for charge in 0..100 {
        record(&ledger, epoch, charge * 100).await.unwrap();
    }
    drop(ledger);
    let emptied = "PRAGMA wal_checkpoint(TRUNCATE)";
    database.tamper(emptied).await.unwrap();
    let whole = std::fs::read(database.file()).unwrap();
    let pages = whole.len() / PAGE;
    assert!(pages > 20, "{pages}");
    for page in 0..pages {
        let mut damaged = whole.clone();
        damaged[page * PAGE..(page + 1) * PAGE].fill(0x5a);
        let own = Database::new(Kind::Sqlite).await;
        let file = std::fs::File::create(own.file()).unwrap();
        file.write_all_at(&damaged, 0).unwrap();
        drop(file);
        let found = match own.try_open().await {
            Ok(ledger) => ledger.check().await,
            Err(error) => Err(error),
        };
        let found = found.unwrap_err();
        assert!(found.is_damage(), "page {page}: {found:?}");
    }
}
