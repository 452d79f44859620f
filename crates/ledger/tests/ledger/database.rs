//! A database of a test's own, of either kind, that can be opened again and again.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};

use gpushare_ledger::store::database::{self, Files};
use gpushare_ledger::store::postgres::Postgres as PostgresStore;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Ledger, StoreError};
use gpushare_rig::postgres::{self, Postgres};
use tempfile::TempDir;
use tokio_postgres::{Config, NoTls};

#[derive(Debug)]
pub(crate) enum Database {
    Sqlite(TempDir),
    Postgres { server: Arc<Postgres>, name: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
}

impl Database {
    pub(crate) async fn new(kind: Kind) -> Self {
        match kind {
            Kind::Sqlite => Self::Sqlite(tempfile::tempdir().unwrap()),
            Kind::Postgres => {
                static NEXT: AtomicU32 = AtomicU32::new(0);
                let server = shared_server();
                let name = format!("ledger{}", NEXT.fetch_add(1, Ordering::Relaxed));
                let create = format!("CREATE DATABASE {name}");
                let created = run_sql(&config(&server, "postgres"), &create).await;
                created.unwrap();
                Self::Postgres { server, name }
            }
        }
    }

    /// An empty one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        Self::new(match self {
            Self::Sqlite(_) => Kind::Sqlite,
            Self::Postgres { .. } => Kind::Postgres,
        })
        .await
    }

    pub(crate) async fn open(&self) -> Ledger {
        self.try_open().await.unwrap()
    }

    pub(crate) async fn try_open(&self) -> Result<Ledger, StoreError> {
        match self {
            Self::Sqlite(_) => Sqlite::open(&self.file()).map(Ledger::new),
            Self::Postgres { .. } => PostgresStore::open(self.config()).await.map(Ledger::new),
        }
    }

    /// As the program opens it.
    pub(crate) fn kept(&self) -> database::Database {
        let address = match self {
            Self::Sqlite(_) => self.file().display().to_string(),
            Self::Postgres { server, name } => {
                let socket = server.socket().display().to_string().replace('/', "%2F");
                format!("postgresql://{}@{socket}/{name}", postgres::USER)
            }
        };
        database::Database::parse(&address, Files::default()).unwrap()
    }

    /// How another process opens it: the kind and where it is.
    pub(crate) fn address(&self) -> (String, String) {
        match self {
            Self::Sqlite(_) => ("sqlite".to_owned(), self.file().display().to_string()),
            Self::Postgres { server, name } => {
                let socket = server.socket().display();
                let address = format!("host={socket} user={} dbname={name}", postgres::USER);
                ("postgres".to_owned(), address)
            }
        }
    }

    /// Runs statements behind the ledger's back; the error is the database's own.
    pub(crate) async fn tamper(&self, sql: &str) -> Result<(), String> {
        match self {
            Self::Sqlite(_) => {
                let connection = rusqlite::Connection::open(self.file()).unwrap();
                let ran = connection.execute_batch(sql);
                ran.map_err(|error| error.to_string())
            }
            Self::Postgres { .. } => run_sql(&self.config(), sql).await,
        }
    }

    pub(crate) fn file(&self) -> PathBuf {
        match self {
            Self::Sqlite(directory) => directory.path().join("ledger.db"),
            Self::Postgres { .. } => unreachable!("PostgreSQL has no file"),
        }
    }

    fn config(&self) -> Config {
        match self {
            Self::Sqlite(_) => unreachable!("SQLite has no server"),
            Self::Postgres { server, name } => config(server, name),
        }
    }
}

fn config(server: &Postgres, database: &str) -> Config {
    let mut config = Config::new();
    config
        .host_path(server.socket())
        .user(postgres::USER)
        .dbname(database);
    config
}

async fn run_sql(config: &Config, sql: &str) -> Result<(), String> {
    let (client, connection) = config.connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let outcome = client.batch_execute(sql).await;
    drop(client);
    connection.await.unwrap().unwrap();
    outcome.map_err(|error| {
        let told = error.as_db_error().map(|error| error.message().to_owned());
        told.unwrap_or_else(|| error.to_string())
    })
}

/// One server for the tests that run at the same time; it ends with the last of them.
fn shared_server() -> Arc<Postgres> {
    static CURRENT: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
    let mut current = CURRENT.lock().unwrap();
    if let Some(server) = current.upgrade() {
        return server;
    }
    let server = Arc::new(Postgres::start().unwrap());
    *current = Arc::downgrade(&server);
    server
}
