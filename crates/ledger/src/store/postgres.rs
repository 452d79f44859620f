//! The ledger in PostgreSQL: for several replicas.
//!
//! Every write is one serializable transaction. On a conflict with another transaction or a broken connection, the
//! whole transaction is tried again; it finds what an earlier try has already written.

mod fault;

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::{debug, warn};

use self::fault::failed;
use super::database::MissingAction;
use super::schema::{self, Files};
use super::sql::{Each, Row, Transaction, Value, number};
use super::{Answer, Fault, Read, ReadAnswer, Store, StoreError, Write, WriteAnswer, run};

const FILES: Files = &[
    include_str!("postgres/001.sql"),
    include_str!("postgres/002.sql"),
    include_str!("postgres/003.sql"),
];
/// Held while the schema is brought up to date, so that two replicas do not do it at once.
const MIGRATION_LOCK: i64 = 0x6770_7573_6861_7265;
/// How many times a transaction is tried if others conflict with it.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_millis(20);
/// How long to try to reach a server, unless the URL sets another time.
const REACHED_WITHIN: Duration = Duration::from_secs(10);
const SILENT_FOR: Duration = Duration::from_secs(30);
const VERSION: &str = "SELECT COALESCE(MAX(version), 0) FROM ledger_schema";

#[derive(Debug)]
pub struct Postgres {
    server: Server,
    writer: Connection,
    reader: Connection,
}

/// Where the database is, and how its server must prove itself.
#[derive(Clone, Debug)]
pub struct Server {
    pub config: Config,
    /// Without it nothing is encrypted: only for a Unix socket or a network that you trust.
    pub tls: Option<ClientConfig>,
}

impl From<Config> for Server {
    fn from(config: Config) -> Self {
        Self { config, tls: None }
    }
}

/// Connected on demand.
type Connection = Mutex<Option<Link>>;

/// A connection with the statements that are already prepared on it.
#[derive(Debug)]
struct Link {
    client: Client,
    statements: BTreeMap<String, Statement>,
}

impl Postgres {
    /// Connects, and brings the schema up to date.
    pub async fn open(server: impl Into<Server>) -> Result<Self, StoreError> {
        Self::open_with(server.into(), MissingAction::Make).await
    }

    pub(super) async fn open_with(
        mut server: Server,
        missing: MissingAction,
    ) -> Result<Self, StoreError> {
        impatient(&mut server.config);
        let mut link = connect(&server).await?;
        migrate(&mut link.client, missing).await?;
        Ok(Self {
            server,
            writer: Mutex::new(Some(link)),
            reader: Mutex::new(None),
        })
    }
}

/// Without these limits, a connection that broke silently would block for hours, until the kernel gives up.
fn impatient(config: &mut Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(REACHED_WITHIN);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT_FOR);
    }
}

impl Store for Postgres {
    fn write(&self, write: Write) -> Answer<'_, WriteAnswer> {
        Box::pin(async move { tried(&self.server, &self.writer, &write).await })
    }

    fn read(&self, read: Read) -> Answer<'_, ReadAnswer> {
        Box::pin(async move { tried(&self.server, &self.reader, &read).await })
    }
}

/// What one transaction does.
trait Request: Sync {
    type Answer;

    fn once(
        &self,
        link: &mut Link,
    ) -> impl Future<Output = Result<Self::Answer, StoreError>> + Send;
}

/// Runs the transaction of a request until its outcome is final.
async fn tried<R: Request>(
    server: &Server,
    connection: &Connection,
    request: &R,
) -> Result<R::Answer, StoreError> {
    let mut connection = connection.lock().await;
    let mut tries = 0;
    loop {
        let outcome = match connected(server, &mut connection).await {
            Ok(link) => request.once(link).await,
            Err(problem) => Err(problem),
        };
        tries += 1;
        if let Some(outcome) = settled(outcome, tries).await {
            return outcome;
        }
    }
}

/// Returns the outcome if it is final. If the error may be temporary, waits a while and returns `None`.
async fn settled<T>(outcome: Result<T, StoreError>, tries: u32) -> Option<Result<T, StoreError>> {
    match outcome {
        Err(
            problem @ StoreError::Database {
                fault: Fault::Passing,
                ..
            },
        ) if tries < TRIES => {
            debug!(error = %problem, tries, "trying the ledger's transaction again");
            tokio::time::sleep(PAUSE * tries).await;
            None
        }
        outcome => Some(outcome),
    }
}

impl Request for Read {
    type Answer = ReadAnswer;

    async fn once(&self, link: &mut Link) -> Result<ReadAnswer, StoreError> {
        let mut session = link.begin("read", IsolationLevel::RepeatableRead).await?;
        if let Read::Check { .. } = self {
            schema::expect_current(FILES, number(&mut session, VERSION, &[]).await?)?;
        }
        let found = run::read(&mut session, self).await?;
        session.commit().await?;
        Ok(found)
    }
}

impl Request for Write {
    type Answer = WriteAnswer;

    /// If the answer to the commit is lost, the next try finds whatever was written.
    async fn once(&self, link: &mut Link) -> Result<WriteAnswer, StoreError> {
        let mut session = link.begin("write to", IsolationLevel::Serializable).await?;
        let written = run::write(&mut session, self).await?;
        session.commit().await?;
        Ok(written)
    }
}

async fn connected<'a>(
    server: &Server,
    connection: &'a mut Option<Link>,
) -> Result<&'a mut Link, StoreError> {
    if connection
        .as_ref()
        .is_none_or(|link| link.client.is_closed())
    {
        *connection = Some(connect(server).await?);
    }
    connection.as_mut().ok_or(StoreError::Stopped)
}

async fn connect(server: &Server) -> Result<Link, StoreError> {
    let Server { config, tls } = server;
    match tls {
        Some(tls) => linked(config.connect(MakeRustlsConnect::new(tls.clone())).await),
        None => linked(config.connect(NoTls).await),
    }
}

fn linked<S, T>(
    connected: Result<(Client, tokio_postgres::Connection<S, T>), tokio_postgres::Error>,
) -> Result<Link, StoreError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = connected.map_err(|source| failed("connect to", source))?;
    // The task ends with the client.
    tokio::spawn(async move {
        if let Err(problem) = connection.await {
            warn!(error = %problem, "the connection to the ledger's database broke");
        }
    });
    Ok(Link {
        client,
        statements: BTreeMap::new(),
    })
}

async fn migrate(client: &mut Client, missing: MissingAction) -> Result<(), StoreError> {
    let failed = |source| failed("bring up to date the schema of", source);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = format!("SELECT pg_advisory_xact_lock({MIGRATION_LOCK})");
    transaction.batch_execute(&lock).await.map_err(failed)?;
    let version = "CREATE TABLE IF NOT EXISTS ledger_schema (version BIGINT NOT NULL)";
    transaction.batch_execute(version).await.map_err(failed)?;
    let found: i64 = transaction
        .query_one(VERSION, &[])
        .await
        .map_err(failed)?
        .get(0);
    schema::expect_ledger(found, missing)?;
    for (version, sql) in schema::missing(FILES, found)? {
        transaction.batch_execute(sql).await.map_err(failed)?;
        let note = "INSERT INTO ledger_schema (version) VALUES ($1)";
        transaction
            .execute(note, &[&version])
            .await
            .map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

struct Session<'a> {
    transaction: tokio_postgres::Transaction<'a>,
    statements: &'a mut BTreeMap<String, Statement>,
    doing: &'static str,
}

impl Link {
    /// Begins a transaction; its errors say what it was `doing`.
    async fn begin(
        &mut self,
        doing: &'static str,
        isolation: IsolationLevel,
    ) -> Result<Session<'_>, StoreError> {
        let builder = self.client.build_transaction().isolation_level(isolation);
        // A transaction that only reads needs no more than a consistent snapshot.
        let builder = match isolation {
            IsolationLevel::RepeatableRead => builder.read_only(true),
            _ => builder,
        };
        let transaction = builder.start().await;
        Ok(Session {
            transaction: transaction.map_err(|source| failed(doing, source))?,
            statements: &mut self.statements,
            doing,
        })
    }
}

impl Session<'_> {
    async fn commit(self) -> Result<(), StoreError> {
        let committed = self.transaction.commit().await;
        committed.map_err(|source| failed(self.doing, source))
    }

    async fn prepared(&mut self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.transaction.prepare(sql).await;
        let statement = prepared.map_err(|source| failed(self.doing, source))?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Transaction for Session<'_> {
    async fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Row>, StoreError> {
        let statement = self.prepared(sql).await?;
        let rows = self
            .transaction
            .query(&statement, &borrowed(parameters))
            .await;
        let rows = rows.map_err(|source| failed(self.doing, source))?;
        rows.iter().map(row).collect()
    }

    async fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<u64, StoreError> {
        let statement = self.prepared(sql).await?;
        let changed = self
            .transaction
            .execute(&statement, &borrowed(parameters))
            .await;
        changed.map_err(|source| failed(self.doing, source))
    }

    /// Sends all rows in one round trip, each column as an array.
    async fn each(
        &mut self,
        statement: &'static Each,
        rows: &[Row],
    ) -> Result<Vec<Row>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let ints = statement.ints.iter().map(|_| "BIGINT[]");
        let kinds = ints.chain(statement.texts.iter().map(|_| "TEXT[]"));
        let arrays = (1..).zip(kinds);
        let arrays = arrays.map(|(number, kind)| format!("CAST(${number} AS {kind})"));
        let arrays: Vec<String> = arrays.collect();
        let sql = statement.text(&format!("SELECT * FROM unnest({})", arrays.join(", ")));
        let columns = 0..statement.width();
        let columns: Vec<Column<'_>> = columns.map(|number| Column { rows, number }).collect();
        let columns: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|column| column as _).collect();
        let prepared = self.prepared(&sql).await?;
        let answer = self.transaction.query(&prepared, &columns).await;
        let answer = answer.map_err(|source| failed(self.doing, source))?;
        answer.iter().map(row).collect()
    }
}

/// One column of many rows.
#[derive(Debug)]
struct Column<'a> {
    rows: &'a [Row],
    number: usize,
}

impl ToSql for Column<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let values: Vec<&Value> = self
            .rows
            .iter()
            .map(|row| row.get(self.number).unwrap_or(&Value::Null))
            .collect();
        values.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8_ARRAY | Type::TEXT_ARRAY)
    }

    to_sql_checked!();
}

fn borrowed(parameters: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    parameters
        .iter()
        .map(|value| value as &(dyn ToSql + Sync))
        .collect()
}

fn row(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let value = |(index, column): (usize, &tokio_postgres::Column)| {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index).map(Value::from),
            _ => row.try_get::<_, Option<&str>>(index).map(Value::from),
        };
        value.map_err(|source| failed("read", source))
    };
    row.columns().iter().enumerate().map(value).collect()
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match self {
            Self::Int(number) => number.to_sql(kind, out),
            Self::Text(text) => text.to_sql(kind, out),
            Self::Null => Ok(IsNull::Yes),
        }
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::INT8 | Type::TEXT)
    }

    to_sql_checked!();
}
