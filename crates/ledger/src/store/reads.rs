//! The queries that the ledger answers.

use gpushare_core::PodUid;

use super::sql::{Row, Transaction, Value, int, number, optional_int, text};
use super::{Balance, Grant, MeteredPod, StoreError, Supply};
use crate::Seconds;
use crate::journal::Leg;
use crate::money::Amount;
use crate::period::Span;

/// One pod, or all that are not settled.
pub(super) async fn pods<T: Transaction>(
    tx: &mut T,
    pod: Option<&PodUid>,
) -> Result<Vec<MeteredPod>, StoreError> {
    let (filter, key): (&str, &[Value]) = match pod {
        Some(pod) => ("pod_uid = $1", &[pod.as_str().into()]),
        None => ("end_s IS NULL", &[]),
    };
    let sql = format!(
        "SELECT pod_uid, namespace, pod, begin_s, through_s, end_s FROM runs WHERE {filter} ORDER BY id"
    );
    let rows = tx.query(&sql, key).await?;
    let metered = |row: &Row| {
        Ok(MeteredPod {
            pod: PodUid::new(text(row, 0)?),
            namespace: text(row, 1)?,
            name: text(row, 2)?,
            begin: int(row, 3)?,
            through: int(row, 4)?,
            settled: optional_int(row, 5)?.is_some(),
        })
    };
    rows.iter().map(metered).collect()
}

/// The slots of budget `$1` that begin from `$2` up to `$3`.
const SLOTS: &str = "(SELECT id FROM accounts WHERE kind = 'budget' AND name = $1 AND slot_s >= $2 AND slot_s < $3)";

/// The parameters of [`SLOTS`].
fn slots(budget: &str, counted: Span) -> [Value; 3] {
    [budget.into(), counted.start.into(), counted.end.into()]
}

/// The accounts hold what is left. What was supplied comes from the few transfers that are not charges.
pub(super) async fn balance<T: Transaction>(
    tx: &mut T,
    budget: &str,
    counted: Span,
) -> Result<Balance, StoreError> {
    let sql = format!(
        "SELECT CAST(COALESCE(SUM(paid_in - paid_out), 0) AS BIGINT) FROM accounts WHERE id IN {SLOTS}"
    );
    let left = Amount::from_micros(number(tx, &sql, &slots(budget, counted)).await?);
    let supplied = supplied(tx, budget, counted, "'amounts', 'grants', 'budget'").await?;
    Ok(Balance {
        supplied,
        used: supplied.minus(left)?,
    })
}

/// What came into the slots from the budget's accounts of these kinds, less what went back.
async fn supplied<T: Transaction>(
    tx: &mut T,
    budget: &str,
    counted: Span,
    kinds: &'static str,
) -> Result<Amount, StoreError> {
    let key = slots(budget, counted);
    let sources = format!("(SELECT id FROM accounts WHERE name = $1 AND kind IN ({kinds}))");
    let moved = |ours: &str, other: &str| {
        format!(
            "SELECT CAST(COALESCE(SUM(amount), 0) AS BIGINT) FROM transfers \
             WHERE {ours} IN {SLOTS} AND {other} IN {sources}"
        )
    };
    let into = number(tx, &moved("to_account", "from_account"), &key).await?;
    let out = number(tx, &moved("from_account", "to_account"), &key).await?;
    Ok(Amount::from_micros(into).minus(Amount::from_micros(out))?)
}

/// The parts of what was supplied, by where they came from.
pub(super) async fn supply<T: Transaction>(
    tx: &mut T,
    budget: &str,
    counted: Span,
) -> Result<Supply, StoreError> {
    let Balance {
        supplied: all,
        used,
    } = balance(tx, budget, counted).await?;
    let issued = supplied(tx, budget, counted, "'amounts'").await?;
    let granted = supplied(tx, budget, counted, "'grants'").await?;
    Ok(Supply {
        issued,
        // Everything else was carried over; a query for it would be the slowest of all.
        carried: all.minus(issued)?.minus(granted)?,
        granted,
        used,
    })
}

/// All grants with the time at which each was written, oldest first.
pub(super) async fn grants<T: Transaction>(
    tx: &mut T,
    budget: &str,
) -> Result<Vec<(Seconds, Grant)>, StoreError> {
    let sql = "SELECT e.written_s, e.identity, e.author, e.reason, a.slot_s, t.amount \
        FROM entries e JOIN transfers t ON t.entry = e.id JOIN accounts a ON a.id = t.to_account \
        WHERE e.kind = 'grant' AND a.kind = 'budget' AND a.name = $1 ORDER BY e.id";
    let rows = tx.query(sql, &[budget.into()]).await?;
    let grant = |row: &Row| {
        let identity = text(row, 1)?;
        let grant = Grant {
            id: identity
                .strip_prefix("grant/")
                .unwrap_or(&identity)
                .to_owned(),
            leg: Leg::new(budget, int(row, 4)?),
            amount: Amount::from_micros(int(row, 5)?),
            author: text(row, 2)?,
            reason: text(row, 3)?,
        };
        Ok((int(row, 0)?, grant))
    };
    rows.iter().map(grant).collect()
}

/// Where the latest slot begins that received its budget's amount.
pub(super) async fn opened<T: Transaction>(
    tx: &mut T,
    budget: &str,
) -> Result<Option<Seconds>, StoreError> {
    let sql = "SELECT MAX(slot.slot_s) FROM accounts source \
        JOIN transfers t ON t.from_account = source.id JOIN accounts slot ON slot.id = t.to_account \
        WHERE source.kind = 'amounts' AND source.name = $1";
    let rows = tx.query(sql, &[budget.into()]).await?;
    rows.first().map_or(Ok(None), |row| optional_int(row, 0))
}
