//! What fills a budget: its amount, what is carried over, and grants.

use super::accounts::{self, Heading};
use super::sql::{Transaction, number};
use super::{Batch, Grant, Outcome, StoreError};
use crate::Seconds;
use crate::journal::{self, Account, Leg};
use crate::money::Amount;

pub(super) async fn issue<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    leg: &Leg,
    amount: Amount,
) -> Result<Outcome, StoreError> {
    let source = Account::Amounts {
        budget: leg.budget.clone(),
    };
    let slot = Account::Budget {
        budget: leg.budget.clone(),
        slot: leg.slot,
    };
    let source = accounts::account(tx, &source).await?;
    let slot = accounts::account(tx, &slot).await?;
    let sql = "SELECT CAST(COALESCE(SUM(CASE WHEN from_account = $1 THEN amount ELSE -amount END), 0) AS BIGINT) \
        FROM transfers WHERE (from_account = $1 AND to_account = $2) OR (from_account = $2 AND to_account = $1)";
    let issued = number(tx, sql, &[source.into(), slot.into()]).await?;
    let transfers = journal::issue(leg, amount.minus(Amount::from_micros(issued))?)?;
    if transfers.is_empty() {
        return Ok(Outcome::AlreadyThere);
    }
    accounts::enter(tx, &heading(batch, "issue", None), &transfers).await?;
    Ok(Outcome::Applied)
}

pub(super) async fn rollover<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    budget: &str,
    (old, new): (Seconds, Seconds),
    cap: Amount,
) -> Result<Outcome, StoreError> {
    if old >= new {
        let refused =
            format!("budget {budget} would carry over from {old} to {new}, which is not later");
        return Err(StoreError::Refused(refused));
    }
    let identity = format!("rollover/{budget}/{new}");
    if accounts::known(tx, &identity).await? {
        return Ok(Outcome::AlreadyThere);
    }
    let slot = Account::Budget {
        budget: budget.to_owned(),
        slot: old,
    };
    let slot = accounts::account(tx, &slot).await?;
    let sql = "SELECT paid_in - paid_out FROM accounts WHERE id = $1";
    let left = Amount::from_micros(number(tx, sql, &[slot.into()]).await?);
    let transfers = journal::rollover(budget, old, new, left, cap);
    // Written even if nothing is carried over: what is reversed in the old slot later stays there.
    accounts::enter(tx, &heading(batch, "rollover", Some(identity)), &transfers).await?;
    Ok(Outcome::Applied)
}

pub(super) async fn grant<T: Transaction>(
    tx: &mut T,
    batch: &Batch,
    grant: &Grant,
) -> Result<Outcome, StoreError> {
    for (what, text) in [
        ("id", &grant.id),
        ("author", &grant.author),
        ("reason", &grant.reason),
    ] {
        if text.trim().is_empty() {
            return Err(StoreError::Refused(format!("a grant has no {what}")));
        }
    }
    if grant.amount <= Amount::ZERO {
        return Err(StoreError::Refused(
            "a grant must be of more than nothing".to_owned(),
        ));
    }
    let identity = format!("grant/{}", grant.id);
    if accounts::known(tx, &identity).await? {
        return Ok(Outcome::AlreadyThere);
    }
    let transfers = journal::grant(&grant.leg, grant.amount)?;
    let heading = Heading {
        author: Some(&grant.author),
        reason: Some(&grant.reason),
        ..heading(batch, "grant", Some(identity))
    };
    accounts::enter(tx, &heading, &transfers).await?;
    Ok(Outcome::Applied)
}

fn heading<'a>(batch: &Batch, kind: &'static str, identity: Option<String>) -> Heading<'a> {
    Heading::new(kind, identity, batch.epoch, batch.now)
}
