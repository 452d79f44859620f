//! Charges and their corrections.
//!
//! The charges of a pod that were not reversed join without gaps from its begin to how far it is charged. A charge is
//! accepted only where it joins, so a second one of the same time finds that time charged already.

use super::accounts::{self, Heading};
use super::sql::{Transaction, Value, int, number, optional_int, text};
use super::{Batch, Outcome, Settlement, StoreError};
use crate::Seconds;
use crate::journal;
use crate::meter::Charge;

/// How far a pod is charged.
#[derive(Debug)]
struct Progress {
    id: i64,
    through: Seconds,
    /// Grows with each correction, so that time that was reversed can be charged again.
    revision: i64,
    end: Option<Seconds>,
}

pub(super) async fn charge<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    charge: &Charge,
) -> Result<Outcome, StoreError> {
    if charge.to <= charge.from {
        let refused = format!("pod {} would be charged for no time at all", charge.pod);
        return Err(StoreError::Refused(refused));
    }
    let progress = match progress(tx, charge.pod.as_str()).await? {
        Some(progress) => progress,
        None => {
            begin(
                tx,
                charge.pod.as_str(),
                &charge.namespace,
                &charge.name,
                charge.from,
            )
            .await?
        }
    };
    if charge.to <= progress.through {
        return Ok(Outcome::AlreadyThere);
    }
    if let Some(end) = progress.end {
        return Err(StoreError::Settled {
            pod: charge.pod.clone(),
            end,
        });
    }
    if charge.from != progress.through {
        return Err(StoreError::Apart {
            pod: charge.pod.clone(),
            through: progress.through,
            from: charge.from,
        });
    }
    let transfers = journal::charge(&charge.namespace, &charge.legs, charge.amount()?);
    let piece = Piece {
        from: charge.from,
        to: charge.to,
        rate: charge.rate.micros(),
        formula: &charge.formula,
    };
    let heading = charge_heading(batch, &progress, charge.from);
    let entry = accounts::enter(tx, &heading, &transfers).await?;
    note_charge(tx, entry, &progress, &piece).await?;
    advance(tx, &progress, charge.to, None).await?;
    Ok(Outcome::Applied)
}

pub(super) async fn settle<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    settlement: &Settlement,
) -> Result<Outcome, StoreError> {
    let Settlement {
        pod,
        namespace,
        name,
        end,
    } = settlement;
    let mut progress = match progress(tx, pod.as_str()).await? {
        Some(progress) => progress,
        None => begin(tx, pod.as_str(), namespace, name, *end).await?,
    };
    match progress.end {
        Some(known) if known == *end => return Ok(Outcome::AlreadyThere),
        Some(known) if known < *end => {
            return Err(StoreError::Settled {
                pod: pod.clone(),
                end: known,
            });
        }
        _ => {}
    }
    if progress.through < *end {
        return Err(StoreError::Apart {
            pod: pod.clone(),
            through: progress.through,
            from: *end,
        });
    }
    if progress.through > *end {
        take_back(tx, batch, &mut progress, *end).await?;
    }
    advance(tx, &progress, *end, Some(*end)).await?;
    Ok(Outcome::Applied)
}

/// Reverses what was charged after `end`. A charge that begins before is reversed too, and charged again up to there.
async fn take_back<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    progress: &mut Progress,
    end: Seconds,
) -> Result<(), StoreError> {
    progress.revision += 1;
    let sql = "SELECT c.entry, c.from_s, c.rate, c.formula FROM charges c \
        WHERE c.run = $1 AND c.to_s > $2 \
        AND NOT EXISTS (SELECT 1 FROM reversals r WHERE r.charge = c.entry) ORDER BY c.from_s";
    for row in tx.query(sql, &[progress.id.into(), end.into()]).await? {
        let (charge, from, rate) = (int(&row, 0)?, int(&row, 1)?, int(&row, 2)?);
        let posted = accounts::transfers(tx, charge).await?;
        let heading = Heading {
            identity: Some(format!("reversal/{charge}")),
            ..heading(batch, "reversal")
        };
        let reversal = accounts::enter(tx, &heading, &[]).await?;
        for ((from_account, to_account), amount) in &posted {
            accounts::post(tx, reversal, (*to_account, *from_account), *amount).await?;
        }
        let sql = "INSERT INTO reversals (entry, charge) VALUES ($1, $2)";
        tx.execute(sql, &[reversal.into(), charge.into()]).await?;
        if from < end {
            let heading = charge_heading(batch, progress, from);
            let entry = accounts::enter(tx, &heading, &[]).await?;
            let amount = crate::money::Rate::from_micros(rate).during(end - from)?;
            for (accounts, _) in &posted {
                accounts::post(tx, entry, *accounts, amount.micros()).await?;
            }
            let formula = text(&row, 3)?;
            let piece = Piece {
                from,
                to: end,
                rate,
                formula: &formula,
            };
            note_charge(tx, entry, progress, &piece).await?;
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Piece<'a> {
    from: Seconds,
    to: Seconds,
    rate: i64,
    formula: &'a str,
}

async fn note_charge<T: Transaction>(
    tx: &mut T,
    entry: i64,
    progress: &Progress,
    piece: &Piece<'_>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO charges (entry, run, revision, from_s, to_s, rate, formula) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    let parameters: [Value; 7] = [
        entry.into(),
        progress.id.into(),
        progress.revision.into(),
        piece.from.into(),
        piece.to.into(),
        piece.rate.into(),
        piece.formula.into(),
    ];
    tx.execute(sql, &parameters).await?;
    Ok(())
}

fn charge_heading<'a>(batch: &Batch, progress: &Progress, from: Seconds) -> Heading<'a> {
    let identity = format!("charge/{}/{}/{from}", progress.id, progress.revision);
    Heading {
        identity: Some(identity),
        ..heading(batch, "charge")
    }
}

fn heading<'a>(batch: &Batch, kind: &'static str) -> Heading<'a> {
    Heading {
        kind,
        identity: None,
        epoch: batch.epoch,
        now: batch.now,
        author: None,
        reason: None,
    }
}

async fn progress<T: Transaction>(tx: &mut T, pod: &str) -> Result<Option<Progress>, StoreError> {
    let sql = "SELECT id, through_s, revision, end_s FROM runs WHERE pod_uid = $1";
    let rows = tx.query(sql, &[pod.into()]).await?;
    let Some(row) = rows.first() else {
        return Ok(None);
    };
    Ok(Some(Progress {
        id: int(row, 0)?,
        through: int(row, 1)?,
        revision: int(row, 2)?,
        end: optional_int(row, 3)?,
    }))
}

async fn begin<T: Transaction>(
    tx: &mut T,
    pod: &str,
    namespace: &str,
    name: &str,
    at: Seconds,
) -> Result<Progress, StoreError> {
    let sql = "INSERT INTO runs (pod_uid, namespace, pod, begin_s, through_s, revision) \
        VALUES ($1, $2, $3, $4, $5, 0) RETURNING id";
    let parameters: [Value; 5] = [
        pod.into(),
        namespace.into(),
        name.into(),
        at.into(),
        at.into(),
    ];
    let id = number(tx, sql, &parameters).await?;
    Ok(Progress {
        id,
        through: at,
        revision: 0,
        end: None,
    })
}

async fn advance<T: Transaction>(
    tx: &mut T,
    progress: &Progress,
    through: Seconds,
    end: Option<Seconds>,
) -> Result<(), StoreError> {
    let sql = "UPDATE runs SET through_s = $1, revision = $2, end_s = $3 WHERE id = $4";
    let parameters: [Value; 4] = [
        through.into(),
        progress.revision.into(),
        end.into(),
        progress.id.into(),
    ];
    tx.execute(sql, &parameters).await?;
    Ok(())
}
