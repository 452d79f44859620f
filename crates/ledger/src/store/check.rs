//! Whether a database can be trusted, as far as it costs little to find out: for the beginning of each term.

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

/// Every table is there, and what left accounts has entered others.
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
