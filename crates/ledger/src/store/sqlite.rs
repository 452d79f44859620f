//! The ledger in one SQLite file: for a single replica, with nothing to install.
//!
//! One thread writes. All waiting requests are written in one transaction, each with a savepoint of its own, so many
//! requests share one wait for the disk. No request is answered before its changes are on disk. Reads have a connection
//! of their own and never wait for the writer.

mod file;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use futures::executor::block_on;
use gpushare_daemon::causes::with_causes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, ErrorCode, OpenFlags, ToSql};
use tokio::sync::{Mutex, mpsc, oneshot};
use tracing::error;

use self::file::File;
use super::database::MissingAction;
use super::schema::{self, Files};
use super::sql::{Each, Row, Transaction, Value};
use super::{Answer, Fault, Read, ReadAnswer, Store, StoreError, Write, WriteAnswer, run};

const FILES: Files = &[
    include_str!("sqlite/001.sql"),
    include_str!("sqlite/002.sql"),
    include_str!("sqlite/003.sql"),
];
/// How many requests can be queued. Further callers wait for a free place.
const QUEUE: usize = 1024;
/// Requests that share one wait for the disk.
const TOGETHER: usize = 256;
/// The most faults that a check reports; there may be thousands.
const MOST_TOLD: usize = 5;

type Reply = oneshot::Sender<Result<WriteAnswer, StoreError>>;

#[derive(Debug)]
pub struct Sqlite {
    path: PathBuf,
    file: File,
    queue: mpsc::Sender<(Write, Reply)>,
    reader: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the file, makes it if it is not there, and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, MissingAction::Make)
    }

    pub(super) fn open_with(path: &Path, missing: MissingAction) -> Result<Self, StoreError> {
        // This is checked first, because opening alone would write to an empty file.
        if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) {
            schema::expect_ledger(0, missing)?;
        }
        let found = File::at(path).ok();
        let mut writer = connect(path, missing)?;
        let file = found.map_or_else(|| File::at(path), Ok)?;
        migrate(&mut writer, missing)?;
        let reader = connect_to_read(path)?;
        file.expect_at(path)?;
        let (queue, requests) = mpsc::channel(QUEUE);
        thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || serve(writer, requests))
            .map_err(|source| StoreError::database("start the writer of", source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            queue,
            reader: Arc::new(Mutex::new(reader)),
        })
    }
}

impl Store for Sqlite {
    fn write(&self, write: Write) -> Answer<'_, WriteAnswer> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let sent = self.queue.send((write, reply)).await;
            sent.map_err(|_| StoreError::Stopped)?;
            answer.await.map_err(|_| StoreError::Stopped)?
        })
    }

    fn read(&self, read: Read) -> Answer<'_, ReadAnswer> {
        Box::pin(async move {
            if let Read::Check { thorough } = read {
                let (path, file) = (self.path.clone(), self.file);
                let checked = tokio::task::spawn_blocking(move || check(&path, file, thorough));
                return checked
                    .await
                    .map_err(|source| StoreError::database("check", source))?;
            }
            let mut reader = self.reader.clone().lock_owned().await;
            let found = tokio::task::spawn_blocking(move || {
                // A transaction that an earlier read could not end would block all later reads.
                if !reader.is_autocommit() {
                    reader.execute_batch("ROLLBACK").map_err(reading)?;
                }
                // One view of the data for all statements of an answer.
                reader.execute_batch("BEGIN").map_err(reading)?;
                let found = block_on(run::read(&mut Session(&mut reader), &read));
                reader.execute_batch("COMMIT").map_err(reading)?;
                found
            });
            found
                .await
                .map_err(|source| StoreError::database("read", source))?
        })
    }
}

/// Checks the file on a separate connection, so that requests need not wait for the check.
fn check(path: &Path, file: File, thorough: bool) -> Result<ReadAnswer, StoreError> {
    let mut connection = connect_to_read(path)?;
    // The thorough check also compares indexes with their tables.
    let pragma = if thorough {
        "integrity_check"
    } else {
        "quick_check"
    };
    let sql = format!("PRAGMA {pragma}({MOST_TOLD})");
    let found = texts(&connection, &sql).map_err(checking)?;
    if found != ["ok"] {
        return Err(StoreError::Damaged(found.join("; ")));
    }
    if thorough {
        let orphans = texts(&connection, "PRAGMA foreign_key_check").map_err(checking)?;
        if let Some(table) = orphans.first() {
            let missing = format!("a row of {table} refers to one that is missing");
            return Err(StoreError::Damaged(missing));
        }
    }
    schema::expect_current(FILES, version(&connection).map_err(checking)?)?;
    let read = Read::Check { thorough };
    let found = block_on(run::read(&mut Session(&mut connection), &read))?;
    // If the path now refers to another file, the check says nothing about the file that the ledger writes to.
    file.expect_at(path)?;
    Ok(found)
}

/// The first column of every row.
fn texts(connection: &Connection, sql: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(sql)?;
    let rows = statement.query_map([], |row| row.get(0))?;
    rows.collect()
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn connect_to_read(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, MissingAction::Refuse)?;
    connection
        .pragma_update(None, "query_only", true)
        .map_err(opening)?;
    Ok(connection)
}

fn connect(path: &Path, missing: MissingAction) -> Result<Connection, StoreError> {
    let flags = match missing {
        MissingAction::Make => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        MissingAction::Refuse => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    let connection = Connection::open_with_flags(path, flags).map_err(opening)?;
    // Another process may be writing; it is fenced soon.
    connection
        .busy_timeout(std::time::Duration::from_secs(30))
        .map_err(opening)?;
    for (name, value) in [
        ("journal_mode", "WAL"),
        ("synchronous", "FULL"),
        ("foreign_keys", "ON"),
    ] {
        connection
            .pragma_update(None, name, value)
            .map_err(opening)?;
    }
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

fn migrate(connection: &mut Connection, missing: MissingAction) -> Result<(), StoreError> {
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(opening)?;
    let found = version(&transaction).map_err(opening)?;
    schema::expect_ledger(found, missing)?;
    for (version, sql) in schema::missing(FILES, found)? {
        transaction.execute_batch(sql).map_err(opening)?;
        transaction
            .pragma_update(None, "user_version", version)
            .map_err(opening)?;
    }
    transaction.commit().map_err(opening)
}

/// Writes requests until all senders are dropped.
fn serve(mut connection: Connection, mut requests: mpsc::Receiver<(Write, Reply)>) {
    while let Some(first) = requests.blocking_recv() {
        let mut together = vec![first];
        while together.len() < TOGETHER
            && let Ok(next) = requests.try_recv()
        {
            together.push(next);
        }
        let (writes, replies): (Vec<Write>, Vec<Reply>) = together.into_iter().unzip();
        match commit(&mut connection, &writes) {
            Ok(answers) => {
                for (reply, answer) in replies.into_iter().zip(answers) {
                    // The caller may have stopped waiting. The request is written all the same.
                    let _gone = reply.send(answer);
                }
            }
            Err(problem) => {
                error!(
                    error = with_causes(&problem),
                    "the ledger's changes were not written"
                );
                if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
                    return;
                }
                let (fault, cause) = match &problem {
                    StoreError::Database { fault, source, .. } => {
                        (*fault, with_causes(source.as_ref()))
                    }
                    other => (Fault::Other, with_causes(other)),
                };
                for reply in replies {
                    let _gone = reply.send(Err(StoreError::Database {
                        doing: "write to",
                        fault,
                        source: cause.clone().into(),
                    }));
                }
            }
        }
    }
}

/// Writes all requests in one transaction. They may be answered only after this has returned.
fn commit(
    connection: &mut Connection,
    writes: &[Write],
) -> Result<Vec<Result<WriteAnswer, StoreError>>, StoreError> {
    let execute =
        |connection: &Connection, sql: &str| connection.execute_batch(sql).map_err(writing);
    execute(connection, "BEGIN IMMEDIATE")?;
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        execute(connection, "SAVEPOINT request")?;
        let answer = block_on(run::write(&mut Session(connection), write));
        if answer.is_err() {
            // SQLite may have undone the whole transaction by itself, as when the disk is full.
            if connection.is_autocommit() {
                return answer.map(|_| Vec::new());
            }
            execute(connection, "ROLLBACK TO request")?;
        }
        execute(connection, "RELEASE request")?;
        answers.push(answer);
    }
    execute(connection, "COMMIT")?;
    Ok(answers)
}

/// A connection inside a transaction.
struct Session<'a>(&'a mut Connection);

impl Session<'_> {
    /// With SQLite's own sign for parameters: it would number `$1` and `$2` in the order of their first use.
    fn prepared(&mut self, sql: &str) -> rusqlite::Result<CachedStatement<'_>> {
        self.0.prepare_cached(&sql.replace('$', "?"))
    }

    fn rows(&mut self, sql: &str, parameters: &[Value]) -> rusqlite::Result<Vec<Row>> {
        let mut read = Vec::new();
        let mut statement = self.prepared(sql)?;
        bind(&mut statement, parameters)?;
        read_all(&mut statement, &mut read)?;
        Ok(read)
    }

    /// Runs the statement for one row after the other, because there are no network round trips to save.
    fn each_row(&mut self, each: &Each, rows: &[Row]) -> rusqlite::Result<Vec<Row>> {
        let numbers: Vec<String> = (1..=each.width()).map(|n| format!("?{n}")).collect();
        let text = each.text(&format!("VALUES ({})", numbers.join(", ")));
        let mut statement = self.0.prepare_cached(&text)?;
        let mut read = Vec::new();
        for row in rows {
            bind(&mut statement, row)?;
            read_all(&mut statement, &mut read)?;
        }
        Ok(read)
    }
}

fn bind(statement: &mut CachedStatement<'_>, parameters: &[Value]) -> rusqlite::Result<()> {
    for (index, parameter) in (1..).zip(parameters) {
        statement.raw_bind_parameter(index, parameter)?;
    }
    Ok(())
}

fn read_all(statement: &mut CachedStatement<'_>, read: &mut Vec<Row>) -> rusqlite::Result<()> {
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(value));
        read.push(values.collect::<rusqlite::Result<Row>>()?);
    }
    Ok(())
}

impl Transaction for Session<'_> {
    async fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError> {
        self.rows(sql, parameters).map_err(reading)
    }

    async fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        let changed = self.prepared(sql).and_then(|mut statement| {
            bind(&mut statement, parameters)?;
            statement.raw_execute()
        });
        let changed = changed.map_err(writing)?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    async fn each(
        &mut self,
        statement: &'static Each,
        rows: &[Row],
    ) -> Result<Vec<Row>, StoreError> {
        self.each_row(statement, rows).map_err(writing)
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Null => Value::Null,
        // None of our columns and sums has such a value. It is refused where it is read.
        ValueRef::Real(number) => Value::Text(number.to_string()),
        ValueRef::Blob(_) => Value::Text(String::new()),
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Int(number) => ToSqlOutput::from(*number),
            Self::Text(text) => ToSqlOutput::from(text.as_str()),
            Self::Null => ToSqlOutput::from(rusqlite::types::Null),
        })
    }
}

fn opening(source: rusqlite::Error) -> StoreError {
    failed("open", source)
}

fn checking(source: rusqlite::Error) -> StoreError {
    failed("check", source)
}

fn reading(source: rusqlite::Error) -> StoreError {
    failed("read", source)
}

fn writing(source: rusqlite::Error) -> StoreError {
    failed("write to", source)
}

fn failed(doing: &'static str, source: rusqlite::Error) -> StoreError {
    StoreError::Database {
        doing,
        fault: fault(&source),
        source: Box::new(source),
    }
}

fn fault(error: &rusqlite::Error) -> Fault {
    let damage = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => true,
        // The schema has everything that our statements name. If something is missing, the database is damaged.
        _ => ["no such table", "no such column"]
            .iter()
            .any(|missing| error.to_string().starts_with(missing)),
    };
    if damage { Fault::Damage } else { Fault::Other }
}

#[cfg(test)]
mod tests;
