//! Deletes old details and keeps the balances: the charges of pods that ended before a moment are replaced by one
//! entry with their sums between each two accounts.

use super::accounts::{self, Heading};
use super::sql::{Transaction, int, number};
use super::{Epoch, StoreError};
use crate::Seconds;

/// Entries of pods that ended before `$1`: their charges and reversals.
const OLD: &str = "(SELECT c.entry FROM charges c JOIN runs r ON r.id = c.run WHERE r.end_s < $1 AND r.carried = 0 \
    UNION SELECT x.entry FROM reversals x JOIN charges c ON c.entry = x.charge JOIN runs r ON r.id = c.run \
    WHERE r.end_s < $1 AND r.carried = 0)";

/// The moment from which on nothing was deleted; `None` if nothing ever was.
pub(super) async fn retained<T: Transaction>(tx: &mut T) -> Result<Option<Seconds>, StoreError> {
    let before = number(tx, "SELECT before_s FROM retention", &[]).await?;
    Ok(Some(before).filter(|before| *before > Seconds::MIN))
}

pub(super) async fn retain<T: Transaction>(
    tx: &mut T,
    epoch: Epoch,
    before: Seconds,
    now: Seconds,
) -> Result<u64, StoreError> {
    // The database refuses to delete anything younger than this.
    let sql = "UPDATE retention SET before_s = $1 WHERE before_s < $1";
    tx.execute(sql, &[before.into()]).await?;
    let sql = format!(
        "SELECT from_account, to_account, CAST(SUM(amount) AS BIGINT) FROM transfers WHERE entry IN {OLD} \
         GROUP BY from_account, to_account ORDER BY from_account, to_account"
    );
    let sums = tx.query(&sql, &[before.into()]).await?;
    let old = format!("SELECT entry FROM {OLD} old");
    let old = tx.query(&old, &[before.into()]).await?;
    if old.is_empty() {
        return Ok(0);
    }
    let heading = Heading::new("carry", None, epoch, now);
    let entry = accounts::enter(tx, &heading, &[]).await?;
    for row in &sums {
        let sql = "INSERT INTO transfers (entry, from_account, to_account, amount) VALUES ($1, $2, $3, $4)";
        let (from, to, amount) = (int(row, 0)?, int(row, 1)?, int(row, 2)?);
        tx.execute(sql, &[entry.into(), from.into(), to.into(), amount.into()])
            .await?;
    }
    // Rows are deleted before the rows that they refer to.
    for sql in [
        "DELETE FROM transfers WHERE entry = $1",
        "DELETE FROM reversals WHERE entry = $1",
        "DELETE FROM charges WHERE entry = $1",
        "DELETE FROM entries WHERE id = $1",
    ] {
        for row in &old {
            tx.execute(sql, &[int(row, 0)?.into()]).await?;
        }
    }
    let sql = "UPDATE runs SET carried = 1 WHERE end_s < $1 AND carried = 0";
    tx.execute(sql, &[before.into()]).await?;
    Ok(u64::try_from(old.len()).unwrap_or(u64::MAX))
}
