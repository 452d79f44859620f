//! Everything that must hold between the rows, checked by queries in the database itself.

use super::StoreError;
use super::sql::{Row, Transaction, Value};

/// The rule that is cheap to check however long the ledger is, because there are few accounts.
const BALANCED: (&str, &str) = (
    "the postings do not sum to zero (in, out)",
    "SELECT CAST(SUM(paid_in) AS BIGINT), CAST(SUM(paid_out) AS BIGINT) FROM accounts \
     HAVING SUM(paid_in) <> SUM(paid_out)",
);

/// Queries that must find nothing, each with the message for what it finds. A reversed charge is not live.
const RULES: [(&str, &str); 6] = [
    (
        "an account's balance differs from its transfers (account, in, out)",
        "SELECT a.id, a.paid_in, a.paid_out FROM accounts a WHERE a.paid_in <> \
         (SELECT COALESCE(SUM(t.amount), 0) FROM transfers t WHERE t.to_account = a.id) OR a.paid_out <> \
         (SELECT COALESCE(SUM(t.amount), 0) FROM transfers t WHERE t.from_account = a.id)",
    ),
    BALANCED,
    (
        "a charge does not cost its rate times its seconds (entry, amount)",
        "SELECT c.entry, t.amount FROM charges c JOIN transfers t ON t.entry = c.entry \
         WHERE t.amount <> c.rate * (c.to_s - c.from_s)",
    ),
    (
        "a live charge joins neither its pod's begin nor another live charge (pod, from)",
        "SELECT r.pod_uid, c.from_s FROM charges c JOIN runs r ON r.id = c.run \
         WHERE NOT EXISTS (SELECT 1 FROM reversals x WHERE x.charge = c.entry) AND c.from_s <> r.begin_s \
         AND NOT EXISTS (SELECT 1 FROM charges b WHERE b.run = c.run AND b.to_s = c.from_s \
         AND NOT EXISTS (SELECT 1 FROM reversals x WHERE x.charge = b.entry))",
    ),
    (
        "a pod's live charges do not fill the time for which it is charged (pod, begin, through)",
        "SELECT r.pod_uid, r.begin_s, r.through_s FROM runs r WHERE r.carried = 0 AND r.through_s - r.begin_s <> \
         (SELECT COALESCE(SUM(c.to_s - c.from_s), 0) FROM charges c WHERE c.run = r.id \
         AND NOT EXISTS (SELECT 1 FROM reversals x WHERE x.charge = c.entry))",
    ),
    (
        "a reversal is not the opposite of its charge (entry)",
        "SELECT x.entry FROM reversals x WHERE \
         (SELECT COALESCE(SUM(t.amount), 0) FROM transfers t WHERE t.entry = x.entry) <> \
         (SELECT COALESCE(SUM(t.amount), 0) FROM transfers t WHERE t.entry = x.charge)",
    ),
];

pub(super) async fn audit<T: Transaction>(tx: &mut T) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for (what, sql) in RULES {
        for row in tx.query(sql, &[]).await? {
            problems.push(format!("{what}: {}", values(&row)));
        }
    }
    Ok(problems)
}

/// Describes the imbalance, if the accounts do not balance.
pub(super) async fn out_of_balance<T: Transaction>(
    tx: &mut T,
) -> Result<Option<String>, StoreError> {
    let (what, sql) = BALANCED;
    let rows = tx.query(sql, &[]).await?;
    Ok(rows.first().map(|row| format!("{what}: {}", values(row))))
}

fn values(row: &Row) -> String {
    let value = |value: &Value| match value {
        Value::Int(number) => number.to_string(),
        Value::Text(text) => text.clone(),
        Value::Null => "nothing".to_owned(),
    };
    row.iter().map(value).collect::<Vec<_>>().join(", ")
}
