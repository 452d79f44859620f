//! The durable ledger: append-only, exactly once, one writer at a time.
//!
//! What may be written and when is decided once, in this module's private parts, by statements that both databases
//! understand; [`sqlite`] and [`postgres`] only connect, run transactions and answer. The databases' own constraints
//! hold what must never break: a transfer has two sides, an identity exists once, and nothing is changed afterwards.

mod accounts;
mod audit;
mod cards;
mod charges;
mod check;
pub mod database;
mod error;
mod inventories;
pub mod postgres;
mod reads;
mod reopening;
mod retain;
mod run;
mod schema;
mod sql;
pub mod sqlite;
mod statements;
mod supply;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use gpushare_core::PodUid;

pub use self::error::{Fault, StoreError};
use crate::Seconds;
use crate::journal::Leg;
use crate::meter::{Charge, HeldCard};
use crate::money::{Amount, Rate};
use crate::period::Span;

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A database that keeps the ledger.
pub trait Store: fmt::Debug + Send + Sync {
    /// Runs in one transaction that is on disk when the answer comes.
    fn write(&self, write: Write) -> Answer<'_, WriteAnswer>;

    fn read(&self, read: Read) -> Answer<'_, ReadAnswer>;
}

/// The number of a writer's term. The process that took over last has the largest number, and no other can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(i64);

#[derive(Clone, Debug)]
pub enum Write {
    TakeOver {
        holder: String,
    },
    Record(Batch),
    Retain {
        epoch: Epoch,
        before: Seconds,
        now: Seconds,
    },
}

/// The answer to a [`Write`].
#[derive(Clone, Debug)]
pub enum WriteAnswer {
    Term(Epoch),
    Recorded(Vec<Outcome>),
    Removed(u64),
}

/// Changes that are made together or not at all.
#[derive(Clone, Debug)]
pub struct Batch {
    pub epoch: Epoch,
    /// When they are written, for the record.
    pub now: Seconds,
    pub changes: Vec<Change>,
}

impl Batch {
    pub fn new(epoch: Epoch, now: Seconds, changes: Vec<Change>) -> Self {
        Self {
            epoch,
            now,
            changes,
        }
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    /// Time that was held. It must join what was charged before.
    Charge(Charge),
    /// Nothing was held after `end`: what was charged past it is reversed, and nothing more is accepted.
    Settle(Settlement),
    /// Sets the budget's amount for a slot. Only the difference to what was issued before is written.
    Issue {
        leg: Leg,
        amount: Amount,
    },
    /// Carries what is left of a slot into a later one, up to the cap. The later slot receives this only once.
    Rollover {
        budget: String,
        old: Seconds,
        new: Seconds,
        cap: Amount,
    },
    Grant(Grant),
    /// Stores the cards of a node, for pods that outlive it. If `cards` is `None`, the node is forgotten.
    Remember {
        node: String,
        cards: Option<String>,
    },
}

#[derive(Clone, Debug)]
pub struct Settlement {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub end: Seconds,
}

/// An extra amount for a budget's slot, with its author and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Chosen by the caller. A grant with a known id is not granted again.
    pub id: String,
    pub leg: Leg,
    pub amount: Amount,
    pub author: String,
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Applied,
    /// The change was written before, or there was nothing to do.
    AlreadyThere,
}

#[derive(Clone, Debug)]
pub enum Read {
    Unsettled,
    Pod(PodUid),
    Balance {
        budget: String,
        counted: Span,
    },
    Supply {
        budget: String,
        counted: Span,
    },
    Statement {
        of: Of,
        span: Span,
    },
    Grants {
        budget: String,
    },
    Opened {
        budget: String,
    },
    Postings {
        written: Span,
        after: i64,
        most: i64,
    },
    Retained,
    Inventories,
    Audit,
    /// Whether the database can be trusted.
    Check {
        /// Also compares indexes with their tables, and checks references. Only the SQLite store distinguishes this.
        thorough: bool,
    },
}

/// Whose charges a statement lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    Namespace(String),
    /// Those that the budget pays for, and those of its descendants.
    Budget(String),
}

/// The answer to a [`Read`].
#[derive(Clone, Debug)]
pub enum ReadAnswer {
    Pods(Vec<MeteredPod>),
    Balance(Balance),
    Supply(Supply),
    Statement(Vec<Line>),
    Grants(Vec<(Seconds, Grant)>),
    Opened(Option<Seconds>),
    Inventories(Vec<(String, String)>),
    Postings(Vec<Posting>),
    Retained(Option<Seconds>),
    Audit(Vec<String>),
    /// Nothing is wrong with the database.
    Whole,
}

/// How far a pod is charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeteredPod {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub begin: Seconds,
    pub through: Seconds,
    pub settled: bool,
}

/// A budget in the slots that count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Issued, carried over and granted.
    pub supplied: Amount,
    /// Charged, less what was reversed.
    pub used: Amount,
}

/// Where a budget's time in the slots that count came from, and what was charged to it. All of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    pub issued: Amount,
    /// From earlier slots, less what went into later ones.
    pub carried: Amount,
    pub granted: Amount,
    pub used: Amount,
}

/// What one pod used at one rate in a statement's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    /// From the first second to the last; another rate may have held between.
    pub span: Span,
    pub rate: Rate,
    pub formula: String,
    pub seconds: Seconds,
    pub amount: Amount,
    /// What the pod held. Empty if it is not known.
    pub cards: Vec<HeldCard>,
}

/// One movement between two accounts, with the entry that it is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Later postings have larger ids.
    pub id: i64,
    pub entry: i64,
    pub kind: String,
    pub written: Seconds,
    pub author: Option<String>,
    pub reason: Option<String>,
    pub from: Side,
    pub to: Side,
    pub amount: Amount,
    /// What was charged, or reversed.
    pub held: Option<ChargedTime>,
}

/// An account as it is written; see [`crate::journal::Account::key`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Side {
    pub kind: String,
    pub name: String,
    pub slot: Seconds,
}

/// What a charge is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargedTime {
    pub pod: PodUid,
    pub namespace: String,
    pub name: String,
    pub span: Span,
    pub rate: Rate,
}

/// The ledger in whichever database.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<dyn Store>);

impl Ledger {
    pub fn new(store: impl Store + 'static) -> Self {
        Self(Arc::new(store))
    }

    /// Makes this process the writer. The previous writer can no longer write.
    pub async fn take_over(&self, holder: &str) -> Result<Epoch, StoreError> {
        let holder = holder.to_owned();
        match self.0.write(Write::TakeOver { holder }).await? {
            WriteAnswer::Term(epoch) => Ok(epoch),
            other => Err(StoreError::answer(&other)),
        }
    }

    pub async fn record(&self, batch: Batch) -> Result<Vec<Outcome>, StoreError> {
        match self.0.write(Write::Record(batch)).await? {
            WriteAnswer::Recorded(outcomes) => Ok(outcomes),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// Replaces the charges of pods that ended before a moment by their sums. Balances stay as they are;
    /// statements of that time are no longer complete. Returns how many entries were deleted.
    pub async fn retain(
        &self,
        epoch: Epoch,
        before: Seconds,
        now: Seconds,
    ) -> Result<u64, StoreError> {
        match self.0.write(Write::Retain { epoch, before, now }).await? {
            WriteAnswer::Removed(entries) => Ok(entries),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// Pods whose end is not charged yet.
    pub async fn unsettled(&self) -> Result<Vec<MeteredPod>, StoreError> {
        self.pods(Read::Unsettled).await
    }

    pub async fn pod(&self, pod: &PodUid) -> Result<Option<MeteredPod>, StoreError> {
        Ok(self.pods(Read::Pod(pod.clone())).await?.pop())
    }

    async fn pods(&self, read: Read) -> Result<Vec<MeteredPod>, StoreError> {
        match self.0.read(read).await? {
            ReadAnswer::Pods(pods) => Ok(pods),
            other => Err(StoreError::answer(&other)),
        }
    }

    pub async fn balance(&self, budget: &str, counted: Span) -> Result<Balance, StoreError> {
        let budget = budget.to_owned();
        match self.0.read(Read::Balance { budget, counted }).await? {
            ReadAnswer::Balance(balance) => Ok(balance),
            other => Err(StoreError::answer(&other)),
        }
    }

    pub async fn supply(&self, budget: &str, counted: Span) -> Result<Supply, StoreError> {
        let budget = budget.to_owned();
        match self.0.read(Read::Supply { budget, counted }).await? {
            ReadAnswer::Supply(supply) => Ok(supply),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// What a namespace used in a time, to the second, by pod.
    pub async fn statement(&self, namespace: &str, span: Span) -> Result<Vec<Line>, StoreError> {
        self.lines(Of::Namespace(namespace.to_owned()), span).await
    }

    /// What was charged in a time, to the second, by pod.
    pub async fn lines(&self, of: Of, span: Span) -> Result<Vec<Line>, StoreError> {
        match self.0.read(Read::Statement { of, span }).await? {
            ReadAnswer::Statement(lines) => Ok(lines),
            other => Err(StoreError::answer(&other)),
        }
    }

    pub async fn grants(&self, budget: &str) -> Result<Vec<(Seconds, Grant)>, StoreError> {
        let budget = budget.to_owned();
        match self.0.read(Read::Grants { budget }).await? {
            ReadAnswer::Grants(grants) => Ok(grants),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// Where the latest period begins for which a budget got its amount.
    pub async fn opened(&self, budget: &str) -> Result<Option<Seconds>, StoreError> {
        let budget = budget.to_owned();
        match self.0.read(Read::Opened { budget }).await? {
            ReadAnswer::Opened(slot) => Ok(slot),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// The cards of nodes that were remembered, as their inventories were written.
    pub async fn inventories(&self) -> Result<Vec<(String, String)>, StoreError> {
        match self.0.read(Read::Inventories).await? {
            ReadAnswer::Inventories(inventories) => Ok(inventories),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// At most `most` of the postings that were written within a span and whose id is larger than `after`. The first
    /// page begins after 0.
    pub async fn postings(
        &self,
        written: Span,
        after: i64,
        most: u32,
    ) -> Result<Vec<Posting>, StoreError> {
        let most = i64::from(most);
        let read = Read::Postings {
            written,
            after,
            most,
        };
        match self.0.read(read).await? {
            ReadAnswer::Postings(postings) => Ok(postings),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// Statements that reach further back than this are not complete, because details were deleted.
    pub async fn retained(&self) -> Result<Option<Seconds>, StoreError> {
        match self.0.read(Read::Retained).await? {
            ReadAnswer::Retained(before) => Ok(before),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// Fails if the database cannot be used or trusted. A database that was closed for that reason is opened again, if
    /// possible.
    pub async fn check(&self) -> Result<(), StoreError> {
        match self.0.read(Read::Check { thorough: false }).await? {
            ReadAnswer::Whole => Ok(()),
            other => Err(StoreError::answer(&other)),
        }
    }

    /// All contradictions within the database. There are none unless another program wrote to it.
    pub async fn audit(&self) -> Result<Vec<String>, StoreError> {
        match self.0.read(Read::Audit).await? {
            ReadAnswer::Audit(problems) => Ok(problems),
            other => Err(StoreError::answer(&other)),
        }
    }
}
