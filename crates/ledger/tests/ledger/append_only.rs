//! The databases themselves refuse to forget or to change what was written, and the audit finds what they cannot refuse.

use crate::conformance::{charge, on_both_databases, settle};
use crate::database::Database;
use gpushare_ledger::store::{Batch, Ledger};

on_both_databases!(
    nobody_can_change_or_delete_what_was_written,
    the_audit_finds_what_was_forged,
);

async fn written(database: &Database) -> Ledger {
    let ledger = database.open().await;
    let epoch = ledger.take_over("test").await.unwrap();
    let changes = vec![
        charge("p", 0, 100, &["leaf", "root"]),
        charge("p", 100, 200, &["leaf", "root"]),
        settle("p", 150),
    ];
    let batch = Batch::new(epoch, 0, changes);
    ledger.record(batch).await.unwrap();
    ledger
}

async fn nobody_can_change_or_delete_what_was_written(database: Database) {
    let ledger = written(&database).await;
    for table in ["entries", "transfers", "charges", "reversals"] {
        let column = match table {
            "entries" => "written_s",
            "transfers" => "amount",
            "charges" => "rate",
            _ => "charge",
        };
        let change = format!("UPDATE {table} SET {column} = {column} + 1");
        let changed = database.tamper(&change).await;
        assert!(changed.unwrap_err().contains("append-only"), "{table}");
        // No trigger protects reversals from deletion, but the entries and charges they refer to are protected.
        if table != "reversals" {
            let deleted = database.tamper(&format!("DELETE FROM {table}")).await;
            assert!(deleted.is_err(), "{table}");
        }
    }
    let double = database
        .tamper("INSERT INTO reversals SELECT x.entry + 1000, x.charge FROM reversals x")
        .await;
    assert!(double.is_err());
    let one_sided = "INSERT INTO transfers (entry, from_account, to_account, amount) \
        SELECT entry, from_account, from_account, 1 FROM transfers";
    assert!(database.tamper(one_sided).await.is_err());
    assert_eq!(ledger.audit().await.unwrap(), [""; 0]);
}

async fn the_audit_finds_what_was_forged(database: Database) {
    for (forgery, found) in [
        (
            "UPDATE accounts SET paid_in = paid_in + 5 WHERE kind = 'usage'",
            "balance differs",
        ),
        (
            "UPDATE accounts SET paid_out = paid_out + 5 WHERE kind = 'usage'",
            "balance differs",
        ),
        (
            "UPDATE runs SET through_s = 160, end_s = 160",
            "do not fill the time",
        ),
        (
            "INSERT INTO transfers (entry, from_account, to_account, amount) \
             SELECT entry, to_account, from_account, 7 FROM transfers WHERE id = 1",
            "rate times its seconds",
        ),
    ] {
        let own = database.another().await;
        let ledger = written(&own).await;
        own.tamper(forgery).await.unwrap();
        let problems = ledger.audit().await.unwrap();
        assert!(
            problems.iter().any(|problem| problem.contains(found)),
            "{forgery}: {problems:?}"
        );
    }
}
