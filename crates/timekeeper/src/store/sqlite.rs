//! The ledger in one SQLite file: for a single replica, with nothing to install.
//!
//! One thread writes. What waits for it is written in one transaction, each request with a savepoint of its own, so
//! many requests share one wait for the disk; nobody gets an answer before the disk has it. Reads have a connection
//! of their own and never wait for the writer.

use std::path::Path;
use std::sync::Arc;
use std::thread;

use futures::executor::block_on;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, OpenFlags, ToSql};
use tokio::sync::{Mutex, mpsc, oneshot};
use tracing::error;

use super::schema::{self, Files};
use super::sql::{Each, Row, Transaction, Value};
use super::{Answer, Found, Read, Store, StoreError, Write, Written, run};

const FILES: Files = &[
    include_str!("sqlite/001.sql"),
    include_str!("sqlite/002.sql"),
    include_str!("sqlite/003.sql"),
];
/// Requests that wait beyond this make the next ones wait.
const QUEUE: usize = 1024;
/// Requests that share one wait for the disk.
const TOGETHER: usize = 256;

type Reply = oneshot::Sender<Result<Written, StoreError>>;

#[derive(Debug)]
pub struct Sqlite {
    queue: mpsc::Sender<(Write, Reply)>,
    reader: Arc<Mutex<Connection>>,
}

impl Sqlite {
    /// Opens the file, makes it if it is not there, and brings its schema up to date.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let mut writer = connect(path)?;
        migrate(&mut writer)?;
        let reader = connect(path)?;
        reader
            .pragma_update(None, "query_only", true)
            .map_err(opening)?;
        let (queue, requests) = mpsc::channel(QUEUE);
        thread::Builder::new()
            .name("ledger".to_owned())
            .spawn(move || serve(writer, requests))
            .map_err(|source| StoreError::database("start the writer of", source))?;
        Ok(Self {
            queue,
            reader: Arc::new(Mutex::new(reader)),
        })
    }
}

impl Store for Sqlite {
    fn write(&self, write: Write) -> Answer<'_, Written> {
        Box::pin(async move {
            let (reply, answer) = oneshot::channel();
            let sent = self.queue.send((write, reply)).await;
            sent.map_err(|_| StoreError::Stopped)?;
            answer.await.map_err(|_| StoreError::Stopped)?
        })
    }

    fn read(&self, read: Read) -> Answer<'_, Found> {
        Box::pin(async move {
            let mut reader = self.reader.clone().lock_owned().await;
            let found = tokio::task::spawn_blocking(move || {
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

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
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

fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(opening)?;
    let found: i64 = transaction
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(opening)?;
    for (version, sql) in schema::missing(FILES, found)? {
        transaction.execute_batch(sql).map_err(opening)?;
        transaction
            .pragma_update(None, "user_version", version)
            .map_err(opening)?;
    }
    transaction.commit().map_err(opening)
}

/// Until nobody can ask any more.
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
                    // Whoever asked may have gone; it is written all the same.
                    let _gone = reply.send(answer);
                }
            }
            Err(problem) => {
                error!(error = %problem, "the ledger's changes were not written");
                if !connection.is_autocommit() && connection.execute_batch("ROLLBACK").is_err() {
                    return;
                }
                for reply in replies {
                    let _gone =
                        reply.send(Err(StoreError::database("write to", problem.to_string())));
                }
            }
        }
    }
}

/// Everything in one transaction. The answers may be given when this returns, and not before.
fn commit(
    connection: &mut Connection,
    writes: &[Write],
) -> Result<Vec<Result<Written, StoreError>>, rusqlite::Error> {
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let mut answers = Vec::with_capacity(writes.len());
    for write in writes {
        connection.execute_batch("SAVEPOINT request")?;
        let answer = block_on(run::write(&mut Session(connection), write));
        if answer.is_err() {
            connection.execute_batch("ROLLBACK TO request")?;
        }
        connection.execute_batch("RELEASE request")?;
        answers.push(answer);
    }
    connection.execute_batch("COMMIT")?;
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

    /// One row after the other: nothing is far away here.
    fn each_row(&mut self, each: &Each, rows: &[Row]) -> rusqlite::Result<Vec<Row>> {
        let numbers: Vec<String> = (1..=each.given.len()).map(|n| format!("?{n}")).collect();
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
        let changed = changed.map_err(|source| StoreError::database("write to", source))?;
        Ok(u64::try_from(changed).unwrap_or(u64::MAX))
    }

    async fn each(
        &mut self,
        statement: &'static Each,
        rows: &[Row],
    ) -> Result<Vec<Row>, StoreError> {
        let read = self.each_row(statement, rows);
        read.map_err(|source| StoreError::database("write to", source))
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(number) => Value::Int(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Null => Value::Null,
        // No column and no sum of ours is one of these; it is refused where it is read.
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
    StoreError::database("open", source)
}

fn reading(source: rusqlite::Error) -> StoreError {
    StoreError::database("read", source)
}
