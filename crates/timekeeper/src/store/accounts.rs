//! Accounts, entries and transfers: the rows that every change is made of.

use super::sql::{Transaction, Value, int, number};
use super::{Epoch, StoreError};
use crate::Seconds;
use crate::journal::{Account, Transfer};

/// What is written beside an entry's transfers.
#[derive(Debug)]
pub(super) struct Heading<'a> {
    pub(super) kind: &'static str,
    /// Makes a second entry of the same impossible.
    pub(super) identity: Option<String>,
    pub(super) epoch: Epoch,
    pub(super) now: Seconds,
    pub(super) author: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

/// Writes an entry and answers its number.
pub(super) async fn enter<T: Transaction>(
    tx: &mut T,
    heading: &Heading<'_>,
    transfers: &[Transfer],
) -> Result<i64, StoreError> {
    let sql = "INSERT INTO entries (kind, identity, epoch, written_s, author, reason) \
        VALUES ($1, $2, $3, $4, $5, $6) RETURNING id";
    let parameters: [Value; 6] = [
        heading.kind.into(),
        heading.identity.as_deref().into(),
        heading.epoch.0.into(),
        heading.now.into(),
        heading.author.into(),
        heading.reason.into(),
    ];
    let entry = number(tx, sql, &parameters).await?;
    for transfer in transfers {
        let from = account(tx, &transfer.from).await?;
        let to = account(tx, &transfer.to).await?;
        post(tx, entry, (from, to), transfer.amount.micros()).await?;
    }
    Ok(entry)
}

/// One transfer, and the balances of its two accounts with it.
pub(super) async fn post<T: Transaction>(
    tx: &mut T,
    entry: i64,
    (from, to): (i64, i64),
    amount: i64,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO transfers (entry, from_account, to_account, amount) VALUES ($1, $2, $3, $4)";
    tx.execute(sql, &[entry.into(), from.into(), to.into(), amount.into()])
        .await?;
    let sql = "UPDATE accounts SET paid_out = paid_out + (CASE WHEN id = $1 THEN CAST($3 AS BIGINT) ELSE 0 END), \
        paid_in = paid_in + (CASE WHEN id = $2 THEN CAST($3 AS BIGINT) ELSE 0 END) WHERE id IN ($1, $2)";
    tx.execute(sql, &[from.into(), to.into(), amount.into()])
        .await?;
    Ok(())
}

/// The transfers of an entry, each with its accounts' numbers.
pub(super) async fn transfers<T: Transaction>(
    tx: &mut T,
    entry: i64,
) -> Result<Vec<((i64, i64), i64)>, StoreError> {
    let sql = "SELECT from_account, to_account, amount FROM transfers WHERE entry = $1 ORDER BY id";
    let rows = tx.query(sql, &[entry.into()]).await?;
    rows.iter()
        .map(|row| Ok(((int(row, 0)?, int(row, 1)?), int(row, 2)?)))
        .collect()
}

/// Whether there is an entry of this identity.
pub(super) async fn known<T: Transaction>(tx: &mut T, identity: &str) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM entries WHERE identity = $1";
    Ok(!tx.query(sql, &[identity.into()]).await?.is_empty())
}

/// The account's number; it is made when it is used for the first time.
pub(super) async fn account<T: Transaction>(
    tx: &mut T,
    account: &Account,
) -> Result<i64, StoreError> {
    let (kind, name, slot) = account.key();
    let key: [Value; 3] = [kind.into(), name.into(), slot.into()];
    let sql = "SELECT id FROM accounts WHERE kind = $1 AND name = $2 AND slot_s = $3";
    if let Some(row) = tx.query(sql, &key).await?.first() {
        return int(row, 0);
    }
    let sql = "INSERT INTO accounts (kind, name, slot_s) VALUES ($1, $2, $3) RETURNING id";
    number(tx, sql, &key).await
}
