//! What can go wrong with the ledger.

use std::error::Error;
use std::fmt;

use gpushare_core::PodUid;
use thiserror::Error;

use crate::Seconds;
use crate::money::MoneyError;

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
        /// The same may succeed if it is tried again.
        passing: bool,
        source: Box<dyn Error + Send + Sync>,
    },
    #[error("the ledger's database holds {0}, which no gpushare writes")]
    Strange(String),
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
            passing: false,
            source: source.into(),
        }
    }
}

/// An error with everything that led to it: databases say in their errors' causes what is wrong.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
