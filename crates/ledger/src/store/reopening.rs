//! A database that is closed as soon as it is found damaged, and opened again when it is whole.
//!
//! Nothing is written to a damaged database, and while it is closed somebody can replace it. A database that has stopped
//! answering is closed too, because only a new connection helps.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use gpushare_daemon::causes::with_causes;
use tracing::{info, warn};

use super::database::{Database, MissingAction};
use super::{Answer, Read, ReadAnswer, Store, StoreError, Write, WriteAnswer};

/// Even a busy database answers the requests of a round within this time.
const PATIENCE: Duration = Duration::from_mins(2);
/// The check of an SQLite file reads every page, in any order. Even a slow disk delivers this many bytes in a second.
const CHECKED_IN_A_SECOND: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct ReopeningStore {
    database: Database,
    state: RwLock<State>,
    patience: Duration,
}

#[derive(Clone, Debug)]
enum State {
    Open(Arc<dyn Store>),
    Closed { why: String, damaged: bool },
}

impl ReopeningStore {
    /// Opens the database without a time limit, because the schema may have to be brought up to date.
    pub(super) async fn open(database: &Database) -> Result<Self, StoreError> {
        let store = database.store(MissingAction::Make).await?;
        Ok(Self::new(database, State::Open(store)))
    }

    /// Like [`open`](Self::open), but if an administrator has to repair the database, it stays closed and this succeeds.
    pub(super) async fn open_or_wait(database: &Database) -> Result<Self, StoreError> {
        match Self::open(database).await {
            Err(error) if error.is_damage() || matches!(error, StoreError::Newer { .. }) => {
                warn!(
                    error = with_causes(&error),
                    "the ledger's database stays closed"
                );
                Ok(Self::new(database, State::closed(&error)))
            }
            opened => opened,
        }
    }

    fn new(database: &Database, state: State) -> Self {
        Self {
            database: database.clone(),
            state: RwLock::new(state),
            patience: PATIENCE,
        }
    }

    fn state(&self) -> State {
        let state = self.state.read();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn store(&self) -> Result<Arc<dyn Store>, StoreError> {
        match self.state() {
            State::Open(store) => Ok(store),
            State::Closed { why, .. } => Err(StoreError::Closed(why)),
        }
    }

    /// Closes the database after an answer that shows that it cannot be used as it is.
    fn judge<T>(
        &self,
        store: &Arc<dyn Store>,
        answer: Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if let Err(error) = &answer
            && error.needs_opening()
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            // Another request may have opened the database again meanwhile.
            if matches!(&*state, State::Open(open) if Arc::ptr_eq(open, store)) {
                warn!(error = with_causes(error), "closing the ledger's database");
                *state = State::closed(error);
            }
        }
        answer
    }

    /// Whether the database can be used. A closed database is opened if possible, and used only after it was checked.
    async fn check(&self) -> Result<ReadAnswer, StoreError> {
        match self.state() {
            State::Open(store) => {
                let checked = self.checked(&store, false).await;
                self.judge(&store, checked)
            }
            State::Closed { damaged, .. } => {
                // A missing file is not created, because an administrator may be about to restore a copy.
                let opening = self.database.store(MissingAction::Refuse);
                let store = in_time(self.patience, opening).await?;
                let found = self.checked(&store, damaged).await?;
                info!("the ledger's database is open again");
                self.set(State::Open(store));
                Ok(found)
            }
        }
    }

    /// Waits for an answer, without a time limit if it may take `long`.
    async fn awaited<T>(&self, answer: Answer<'_, T>, long: bool) -> Result<T, StoreError> {
        if long {
            answer.await
        } else {
            in_time(self.patience, answer).await
        }
    }

    async fn checked(
        &self,
        store: &Arc<dyn Store>,
        thorough: bool,
    ) -> Result<ReadAnswer, StoreError> {
        let size = in_time(self.patience, self.database.size()).await?;
        let reading = Duration::from_secs(size / CHECKED_IN_A_SECOND);
        let check = store.read(Read::Check { thorough });
        in_time(self.patience.saturating_add(reading), check).await
    }
}

impl State {
    fn closed(error: &StoreError) -> Self {
        Self::Closed {
            why: with_causes(error),
            damaged: error.is_damage(),
        }
    }
}

impl Store for ReopeningStore {
    fn write(&self, write: Write) -> Answer<'_, WriteAnswer> {
        Box::pin(async move {
            let store = self.store()?;
            // There may be many old charges.
            let long = matches!(write, Write::Retain { .. });
            let written = self.awaited(store.write(write), long).await;
            self.judge(&store, written)
        })
    }

    fn read(&self, read: Read) -> Answer<'_, ReadAnswer> {
        Box::pin(async move {
            if let Read::Check { .. } = read {
                return self.check().await;
            }
            let store = self.store()?;
            // What users request may be a lot of data.
            let long = matches!(
                read,
                Read::Statement { .. } | Read::Postings { .. } | Read::Audit
            );
            let found = self.awaited(store.read(read), long).await;
            self.judge(&store, found)
        })
    }
}

async fn in_time<T>(
    patience: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let answered = tokio::time::timeout(patience, answer).await;
    answered.unwrap_or(Err(StoreError::Silent(patience.as_secs())))
}

#[cfg(test)]
mod tests;
