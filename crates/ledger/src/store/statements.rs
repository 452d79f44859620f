//! What was charged, as people and other programs want to see it.

use gpushare_core::PodUid;

use super::sql::{Row, Transaction, Value, int, optional_int, optional_text, text};
use super::{ChargedTime, Line, Of, Posting, Side, StoreError, cards};
use crate::money::{Amount, Rate};
use crate::period::Span;

/// Exact for any span, because a charge is linear in time.
pub(super) async fn statement<T: Transaction>(
    tx: &mut T,
    of: &Of,
    span: Span,
) -> Result<Vec<Line>, StoreError> {
    let (whose, name) = match of {
        Of::Namespace(name) => ("r.namespace = $1", name),
        Of::Budget(name) => (
            "EXISTS (SELECT 1 FROM transfers t JOIN accounts a ON a.id = t.from_account \
             WHERE t.entry = c.entry AND a.kind = 'budget' AND a.name = $1)",
            name,
        ),
    };
    let from = "(CASE WHEN c.from_s < $2 THEN $2 ELSE c.from_s END)";
    let to = "(CASE WHEN c.to_s > $3 THEN $3 ELSE c.to_s END)";
    let sql = format!(
        "SELECT r.pod_uid, r.namespace, r.pod, MIN({from}), MAX({to}), c.rate, c.formula, \
            CAST(SUM({to} - {from}) AS BIGINT), r.cards \
        FROM charges c JOIN runs r ON r.id = c.run \
        WHERE {whose} AND c.to_s > $2 AND c.from_s < $3 \
        AND NOT EXISTS (SELECT 1 FROM reversals x WHERE x.charge = c.entry) \
        GROUP BY r.id, r.pod_uid, r.namespace, r.pod, r.cards, c.rate, c.formula ORDER BY r.id, c.rate, c.formula"
    );
    let key: [Value; 3] = [name.as_str().into(), span.start.into(), span.end.into()];
    let rows = tx.query(&sql, &key).await?;
    let line = |row: &Row| {
        let (rate, seconds) = (Rate::from_micros(int(row, 5)?), int(row, 7)?);
        Ok(Line {
            pod: PodUid::new(text(row, 0)?),
            namespace: text(row, 1)?,
            name: text(row, 2)?,
            span: Span::new(int(row, 3)?, int(row, 4)?),
            rate,
            formula: text(row, 6)?,
            seconds,
            amount: rate.during(seconds)?,
            cards: cards::read(optional_text(row, 8)?.as_deref())?,
        })
    };
    rows.iter().map(line).collect()
}

/// A page of the postings, in the order in which they were written. A reversal shows what it reverses.
pub(super) async fn postings<T: Transaction>(
    tx: &mut T,
    written: Span,
    after: i64,
    most: i64,
) -> Result<Vec<Posting>, StoreError> {
    let sql = "SELECT t.id, t.entry, e.kind, e.written_s, e.author, e.reason, a.kind, a.name, a.slot_s, \
            b.kind, b.name, b.slot_s, t.amount, r.pod_uid, r.namespace, r.pod, c.from_s, c.to_s, c.rate \
        FROM transfers t JOIN entries e ON e.id = t.entry \
        JOIN accounts a ON a.id = t.from_account JOIN accounts b ON b.id = t.to_account \
        LEFT JOIN reversals x ON x.entry = e.id \
        LEFT JOIN charges c ON c.entry = COALESCE(x.charge, e.id) LEFT JOIN runs r ON r.id = c.run \
        WHERE t.id > $1 AND e.written_s >= $2 AND e.written_s < $3 ORDER BY t.id LIMIT $4";
    let key: [Value; 4] = [
        after.into(),
        written.start.into(),
        written.end.into(),
        most.into(),
    ];
    let rows = tx.query(sql, &key).await?;
    rows.iter().map(posting).collect()
}

fn posting(row: &Row) -> Result<Posting, StoreError> {
    let side = |column: usize| {
        Ok::<_, StoreError>(Side {
            kind: text(row, column)?,
            name: text(row, column + 1)?,
            slot: int(row, column + 2)?,
        })
    };
    Ok(Posting {
        id: int(row, 0)?,
        entry: int(row, 1)?,
        kind: text(row, 2)?,
        written: int(row, 3)?,
        author: optional_text(row, 4)?,
        reason: optional_text(row, 5)?,
        from: side(6)?,
        to: side(9)?,
        amount: Amount::from_micros(int(row, 12)?),
        held: held(row)?,
    })
}

fn held(row: &Row) -> Result<Option<ChargedTime>, StoreError> {
    let Some(pod) = optional_text(row, 13)? else {
        return Ok(None);
    };
    // A charge has all of these columns.
    let number = |column| Ok::<_, StoreError>(optional_int(row, column)?.unwrap_or_default());
    Ok(Some(ChargedTime {
        pod: PodUid::new(pod),
        namespace: text(row, 14)?,
        name: text(row, 15)?,
        span: Span::new(number(16)?, number(17)?),
        rate: Rate::from_micros(number(18)?),
    }))
}
