//! Corrections: what was charged past a pod's end is reversed by new entries; existing entries never change.

use super::writing::CHARGE;
use super::{Run, Sheet, identity};
use crate::Seconds;
use crate::money::{Amount, Rate};
use crate::store::StoreError;
use crate::store::accounts::{self, Sums};
use crate::store::sql::{Row, Transaction, Value, int, text};

const LIVE: &str = "SELECT c.entry, c.from_s, c.rate, c.formula FROM charges c \
    WHERE c.run = $1 AND c.to_s > $2 \
    AND NOT EXISTS (SELECT 1 FROM reversals r WHERE r.charge = c.entry) ORDER BY c.from_s";

/// The numbers of two accounts, and the amount that the first gave the second.
type Posted = ((i64, i64), Amount);

impl Sheet<'_> {
    /// Reverses what was charged after `end`. A charge that spans `end` is reversed too, and charged again up to it.
    pub(super) async fn take_back<T: Transaction>(
        &mut self,
        tx: &mut T,
        pod: &str,
        end: Seconds,
    ) -> Result<(), StoreError> {
        let Some(run) = self.runs.get_mut(pod) else {
            return Ok(());
        };
        run.revision += 1;
        let revision = run.revision;
        let Some(id) = Run::id(run) else {
            return Ok(());
        };
        for row in tx.query(LIVE, &[id.into(), end.into()]).await? {
            let (charge, from) = (int(&row, 0)?, int(&row, 1)?);
            let posted = posted(tx, charge).await?;
            self.reverse(tx, charge, &posted).await?;
            if from < end {
                let identity = identity(id, revision, from);
                let entry = accounts::enter(tx, &self.heading("charge", identity), &[]).await?;
                let rate = int(&row, 2)?;
                let amount = Rate::from_micros(rate).during(end - from)?;
                let again = posted.iter().map(|(accounts, _)| (*accounts, amount));
                post(tx, entry, again).await?;
                let mut piece: Row = [entry, id, revision, from, end, rate]
                    .map(Value::from)
                    .to_vec();
                piece.push(text(&row, 3)?.as_str().into());
                tx.each(&CHARGE, &[piece]).await?;
            }
        }
        Ok(())
    }

    async fn reverse<T: Transaction>(
        &self,
        tx: &mut T,
        charge: i64,
        posted: &[Posted],
    ) -> Result<(), StoreError> {
        let heading = self.heading("reversal", format!("reversal/{charge}"));
        let entry = accounts::enter(tx, &heading, &[]).await?;
        let back = posted
            .iter()
            .map(|((from, to), amount)| ((*to, *from), *amount));
        post(tx, entry, back).await?;
        let sql = "INSERT INTO reversals (entry, charge) VALUES ($1, $2)";
        tx.execute(sql, &[entry.into(), charge.into()]).await?;
        Ok(())
    }
}

async fn post<T: Transaction>(
    tx: &mut T,
    entry: i64,
    movements: impl Iterator<Item = Posted> + Send,
) -> Result<(), StoreError> {
    let (mut rows, mut sums) = (Vec::new(), Sums::default());
    for ((from, to), amount) in movements {
        rows.push([entry, from, to, amount.micros()].map(Value::from).to_vec());
        sums.add((from, to), amount)?;
    }
    accounts::transfer(tx, &rows, &sums).await
}

/// The transfers of an entry.
async fn posted<T: Transaction>(tx: &mut T, entry: i64) -> Result<Vec<Posted>, StoreError> {
    let sql = "SELECT from_account, to_account, amount FROM transfers WHERE entry = $1 ORDER BY id";
    let rows = tx.query(sql, &[entry.into()]).await?;
    rows.iter()
        .map(|row| {
            let accounts = (int(row, 0)?, int(row, 1)?);
            Ok((accounts, Amount::from_micros(int(row, 2)?)))
        })
        .collect()
}
