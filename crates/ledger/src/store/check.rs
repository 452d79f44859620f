//! A cheap check whether a database can be trusted, made at the beginning of each term.

use super::sql::Transaction;
use super::{StoreError, audit};

const TABLES: [&str; 9] = [
    "writer",
    "retention",
    "accounts",
    "entries",
    "transfers",
    "runs",
    "charges",
    "reversals",
    "inventories",
];

/// Every table exists, and the accounts balance.
pub(super) async fn check<T: Transaction>(tx: &mut T) -> Result<(), StoreError> {
    for table in TABLES {
        let sql = format!("SELECT 1 FROM {table} LIMIT 0");
        tx.query(&sql, &[]).await?;
    }
    match audit::out_of_balance(tx).await? {
        Some(problem) => Err(StoreError::Damaged(problem)),
        None => Ok(()),
    }
}
