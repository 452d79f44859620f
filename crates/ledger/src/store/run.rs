//! Every write and read, in a transaction of either database. The writer's term is checked in the same transaction as
//! its changes, so a writer that was replaced cannot change anything, however late it is.

use super::charges::Sheet;
use super::sql::{Transaction, number};
use super::{
    Batch, Change, Epoch, Outcome, Read, ReadAnswer, StoreError, Write, WriteAnswer, audit, check,
    inventories, reads, retain, statements, supply,
};

pub(super) async fn write<T: Transaction>(
    tx: &mut T,
    write: &Write,
) -> Result<WriteAnswer, StoreError> {
    match write {
        Write::TakeOver { holder } => {
            let sql = "UPDATE writer SET epoch = epoch + 1, holder = $1 RETURNING epoch";
            let epoch = number(tx, sql, &[holder.as_str().into()]).await?;
            Ok(WriteAnswer::Term(Epoch(epoch)))
        }
        Write::Record(batch) => {
            fence(tx, batch.epoch).await?;
            record(tx, batch).await.map(WriteAnswer::Recorded)
        }
        Write::Retain { epoch, before, now } => {
            fence(tx, *epoch).await?;
            let removed = retain::retain(tx, *epoch, *before, *now).await?;
            Ok(WriteAnswer::Removed(removed))
        }
    }
}

/// A write and not only a read, so that writers wait for each other, whatever else they touch.
async fn fence<T: Transaction>(tx: &mut T, ours: Epoch) -> Result<(), StoreError> {
    let sql = "UPDATE writer SET holder = holder WHERE epoch = $1";
    if tx.execute(sql, &[ours.0.into()]).await? == 1 {
        return Ok(());
    }
    let current = number(tx, "SELECT epoch FROM writer", &[]).await?;
    Err(StoreError::Fenced {
        ours: ours.0,
        current,
    })
}

/// Applies one change after the other, as if each was written before the next. Charges are collected until another
/// change could see them.
async fn record<T: Transaction>(tx: &mut T, batch: &Batch) -> Result<Vec<Outcome>, StoreError> {
    let mut sheet = Sheet::read(tx, batch).await?;
    let mut outcomes = Vec::with_capacity(batch.changes.len());
    for change in &batch.changes {
        if !matches!(change, Change::Charge(_) | Change::Settle(_)) {
            sheet.write(tx).await?;
        }
        let outcome = match change {
            Change::Charge(charge) => sheet.charge(charge),
            Change::Settle(settlement) => sheet.settle(tx, settlement).await,
            Change::Issue { leg, amount } => supply::issue(tx, batch, leg, *amount).await,
            Change::Rollover {
                budget,
                old,
                new,
                cap,
            } => supply::rollover(tx, batch, budget, (*old, *new), *cap).await,
            Change::Grant(grant) => supply::grant(tx, batch, grant).await,
            Change::Remember { node, cards } => {
                inventories::remember(tx, node, cards.as_deref()).await
            }
        };
        outcomes.push(outcome?);
    }
    sheet.write(tx).await?;
    Ok(outcomes)
}

pub(super) async fn read<T: Transaction>(
    tx: &mut T,
    read: &Read,
) -> Result<ReadAnswer, StoreError> {
    match read {
        Read::Unsettled => reads::pods(tx, None).await.map(ReadAnswer::Pods),
        Read::Pod(pod) => reads::pods(tx, Some(pod)).await.map(ReadAnswer::Pods),
        Read::Balance { budget, counted } => reads::balance(tx, budget, *counted)
            .await
            .map(ReadAnswer::Balance),
        Read::Supply { budget, counted } => reads::supply(tx, budget, *counted)
            .await
            .map(ReadAnswer::Supply),
        Read::Statement { of, span } => {
            let lines = statements::statement(tx, of, *span).await;
            lines.map(ReadAnswer::Statement)
        }
        Read::Grants { budget } => reads::grants(tx, budget).await.map(ReadAnswer::Grants),
        Read::Opened { budget } => reads::opened(tx, budget).await.map(ReadAnswer::Opened),
        Read::Inventories => inventories::all(tx).await.map(ReadAnswer::Inventories),
        Read::Postings {
            written,
            after,
            most,
        } => statements::postings(tx, *written, *after, *most)
            .await
            .map(ReadAnswer::Postings),
        Read::Retained => retain::retained(tx).await.map(ReadAnswer::Retained),
        Read::Audit => audit::audit(tx).await.map(ReadAnswer::Audit),
        Read::Check { .. } => check::check(tx).await.map(|()| ReadAnswer::Whole),
    }
}
