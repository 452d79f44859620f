//! Accounts, entries and transfers: the rows that every change is made of.

use std::collections::{BTreeMap, BTreeSet};

use super::sql::{Each, Row, Transaction, Value, int, number};
use super::{Epoch, StoreError};
use crate::Seconds;
use crate::journal::{Account, Transfer};
use crate::money::{Amount, MoneyError};

/// What is written beside an entry's transfers.
#[derive(Debug)]
pub(super) struct Heading<'a> {
    pub(super) kind: &'static str,
    /// Unique, so that the same entry cannot be written twice.
    pub(super) identity: Option<String>,
    pub(super) epoch: Epoch,
    pub(super) now: Seconds,
    pub(super) author: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
}

/// A [`Heading`] in each row.
pub(super) const ENTRY: Each = Each {
    ints: &["epoch", "written"],
    texts: &["kind", "identity", "author", "reason"],
    sql: "INSERT INTO entries (kind, identity, epoch, written_s, author, reason) \
        SELECT kind, identity, epoch, written, author, reason FROM given RETURNING identity, id",
};
const TRANSFER: Each = Each {
    ints: &["entry", "source", "target", "amount"],
    texts: &[],
    sql: "INSERT INTO transfers (entry, from_account, to_account, amount) \
        SELECT entry, source, target, amount FROM given",
};
const SUM: Each = Each {
    ints: &["account", "received", "paid"],
    texts: &[],
    sql: "UPDATE accounts SET paid_in = paid_in + given.received, paid_out = paid_out + given.paid \
        FROM given WHERE accounts.id = given.account",
};
const FIND: Each = Each {
    ints: &["place", "slot"],
    texts: &["kind", "name"],
    sql: "SELECT given.place, a.id FROM given \
        JOIN accounts a ON a.kind = given.kind AND a.name = given.name AND a.slot_s = given.slot",
};
const MAKE: Each = Each {
    ints: FIND.ints,
    texts: FIND.texts,
    sql: "INSERT INTO accounts (kind, name, slot_s) SELECT kind, name, slot FROM given",
};

impl Heading<'_> {
    /// The heading of an entry that no user requested, so it has no author and no reason.
    pub(super) fn new(
        kind: &'static str,
        identity: Option<String>,
        epoch: Epoch,
        now: Seconds,
    ) -> Self {
        Self {
            kind,
            identity,
            epoch,
            now,
            author: None,
            reason: None,
        }
    }

    pub(super) fn row(&self) -> Row {
        vec![
            self.epoch.0.into(),
            self.now.into(),
            self.kind.into(),
            self.identity.as_deref().into(),
            self.author.into(),
            self.reason.into(),
        ]
    }
}

/// What accounts receive and pay in several transfers, so that each account is updated only once.
#[derive(Debug, Default)]
pub(super) struct Sums(BTreeMap<i64, (Amount, Amount)>);

impl Sums {
    pub(super) fn add(&mut self, (from, to): (i64, i64), amount: Amount) -> Result<(), MoneyError> {
        let (_, paid) = self.0.entry(from).or_default();
        *paid = paid.plus(amount)?;
        let (received, _) = self.0.entry(to).or_default();
        *received = received.plus(amount)?;
        Ok(())
    }
}

/// Writes an entry and returns its number.
pub(super) async fn enter<T: Transaction>(
    tx: &mut T,
    heading: &Heading<'_>,
    transfers: &[Transfer],
) -> Result<i64, StoreError> {
    let written = tx.each(&ENTRY, &[heading.row()]).await?;
    let strange = || StoreError::Strange("no number of a new entry".to_owned());
    let entry = int(written.first().ok_or_else(strange)?, 1)?;
    let (mut rows, mut sums) = (Vec::new(), Sums::default());
    for Transfer { from, to, amount } in transfers {
        let accounts = (account(tx, from).await?, account(tx, to).await?);
        rows.push(
            [entry, accounts.0, accounts.1, amount.micros()]
                .map(Value::from)
                .to_vec(),
        );
        sums.add(accounts, *amount)?;
    }
    transfer(tx, &rows, &sums).await?;
    Ok(entry)
}

/// Writes transfers (entry, from, to, amount), and updates the sums of their accounts.
pub(super) async fn transfer<T: Transaction>(
    tx: &mut T,
    transfers: &[Row],
    sums: &Sums,
) -> Result<(), StoreError> {
    tx.each(&TRANSFER, transfers).await?;
    let sums = sums.0.iter().map(|(account, (received, paid))| {
        [*account, received.micros(), paid.micros()]
            .map(Value::from)
            .to_vec()
    });
    tx.each(&SUM, &sums.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Whether there is an entry of this identity.
pub(super) async fn known<T: Transaction>(tx: &mut T, identity: &str) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM entries WHERE identity = $1";
    Ok(!tx.query(sql, &[identity.into()]).await?.is_empty())
}

/// The account's number. The account is created when it is used for the first time.
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

/// The numbers of many accounts, as [`account`].
pub(super) async fn numbers<'a, T: Transaction>(
    tx: &mut T,
    accounts: BTreeSet<&'a Account>,
) -> Result<BTreeMap<&'a Account, i64>, StoreError> {
    let accounts: Vec<&Account> = accounts.into_iter().collect();
    let mut missing: Vec<Row> = (0..)
        .zip(&accounts)
        .map(|(place, account)| key(place, account))
        .collect();
    let mut numbers = BTreeMap::new();
    // Look the accounts up, then create the missing ones and look those up.
    for made in [false, true] {
        if made {
            tx.each(&MAKE, &missing).await?;
        }
        for row in tx.each(&FIND, &missing).await? {
            let place = usize::try_from(int(&row, 0)?).ok();
            if let Some(account) = place.and_then(|place| accounts.get(place)) {
                numbers.insert(*account, int(&row, 1)?);
            }
        }
        let unknown = (0..)
            .zip(&accounts)
            .filter(|(_, account)| !numbers.contains_key(*account));
        missing = unknown
            .map(|(place, account)| key(place, account))
            .collect();
        if missing.is_empty() {
            break;
        }
    }
    Ok(numbers)
}

fn key(place: i64, account: &Account) -> Row {
    let (kind, name, slot) = account.key();
    vec![place.into(), slot.into(), kind.into(), name.into()]
}
