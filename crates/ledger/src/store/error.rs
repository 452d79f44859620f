//! What can go wrong with the ledger.

use std::error::Error;
use std::fmt;

use gpushare_core::PodUid;
use thiserror::Error;

use crate::Seconds;
use crate::money::MoneyError;

/// Of which kind an error of the database is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The same may succeed if it is tried again.
    Passing,
    /// What the database holds cannot be read, or a part of it is missing.
    Damage,
    Other,
}

#[derive(Debug, Error)]
pub enum StoreError {
    #[error(
        "this process is no longer the ledger's writer: its term {ours} has been followed by {current}"
    )]
    Fenced { ours: i64, current: i64 },
    #[error(
        "pod {pod} is charged up to {through}, so nothing can be charged from {from}: plan again from there"
    )]
    Apart {
        pod: PodUid,
        through: Seconds,
        from: Seconds,
    },
    #[error("pod {pod} is settled with its end at {end}: nothing can be charged after that")]
    Settled { pod: PodUid, end: Seconds },
    #[error("{0}: correct the request")]
    Refused(String),
    #[error(transparent)]
    Money(#[from] MoneyError),
    #[error(
        "the ledger's database has schema version {found}, this gpushare understands {known}: run the version that \
         wrote it, or a later one"
    )]
    Newer { found: i64, known: i64 },
    #[error("cannot {doing} the ledger's database")]
    Database {
        doing: &'static str,
        fault: Fault,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("the ledger's database holds {0}, which no gpushare writes")]
    Strange(String),
    #[error("the check of the ledger's database found: {0}")]
    Damaged(String),
    #[error("the ledger's database is closed since this: {0}")]
    Closed(String),
    #[error("the ledger's database has not answered for {0} s")]
    Silent(u64),
    #[error("the file of the ledger's database was replaced by another after it was opened")]
    Replaced,
    #[error("the ledger's writer has stopped after an earlier error; see the log")]
    Stopped,
}

impl StoreError {
    pub(super) fn answer(answer: &dyn fmt::Debug) -> Self {
        Self::Strange(format!("the answer {answer:?} to another question"))
    }

    pub(super) fn database(
        doing: &'static str,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self::Database {
            doing,
            fault: Fault::Other,
            source: source.into(),
        }
    }

    /// What the database holds cannot be trusted: somebody has to repair it.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Damaged(_)
                | Self::Strange(_)
                | Self::Database {
                    fault: Fault::Damage,
                    ..
                }
        )
    }

    /// The database must be opened again before it can be used.
    pub fn needs_opening(&self) -> bool {
        let unusable = matches!(
            self,
            Self::Closed(_) | Self::Silent(_) | Self::Replaced | Self::Stopped
        );
        self.is_damage() || unusable
    }
}
