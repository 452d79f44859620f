//! Which database keeps the ledger, as an administrator names it.

use std::path::{Path, PathBuf};

use thiserror::Error;
use tokio_postgres::Config;

use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::{Ledger, StoreError, with_causes};

#[derive(Clone, Debug)]
pub enum Database {
    Sqlite(PathBuf),
    /// Its password is not shown.
    Postgres(Box<Config>),
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DatabaseError {
    #[error("name the path of a file, or a PostgreSQL URL such as postgresql://user@host/name")]
    Empty,
    #[error("the PostgreSQL URL cannot be used: {0}")]
    Url(String),
    #[error("cannot read the password in {}: {reason}", path.display())]
    Password { path: PathBuf, reason: String },
    #[error("a password file belongs to a PostgreSQL URL, and an SQLite file has no password")]
    NoPassword,
}

impl Database {
    /// A path, or a URL of PostgreSQL whose password may stand in a file of its own.
    pub fn parse(text: &str, password: Option<&Path>) -> Result<Self, DatabaseError> {
        let url = ["postgres://", "postgresql://"];
        if !url.iter().any(|scheme| text.starts_with(scheme)) {
            return match (text, password) {
                ("", _) => Err(DatabaseError::Empty),
                (_, Some(_)) => Err(DatabaseError::NoPassword),
                (path, None) => Ok(Self::Sqlite(PathBuf::from(path))),
            };
        }
        let parsed: Result<Config, _> = text.parse();
        let mut config = parsed.map_err(|error| DatabaseError::Url(with_causes(&error)))?;
        if let Some(path) = password {
            let read = std::fs::read_to_string(path);
            let read = read.map_err(|error| DatabaseError::Password {
                path: path.to_owned(),
                reason: error.to_string(),
            })?;
            config.password(read.trim_end_matches(['\r', '\n']));
        }
        Ok(Self::Postgres(Box::new(config)))
    }

    /// Opens it, and brings its schema up to date.
    pub async fn open(&self) -> Result<Ledger, StoreError> {
        match self {
            Self::Sqlite(path) => Sqlite::open(path).map(Ledger::new),
            Self::Postgres(config) => Postgres::open((**config).clone()).await.map(Ledger::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_postgresql_and_anything_else_is_a_file() {
        let parse = |text: &str| Database::parse(text, None);
        assert!(matches!(parse("ledger.db"), Ok(Database::Sqlite(_))));
        assert!(matches!(
            parse("postgresql://u@h:5432/d"),
            Ok(Database::Postgres(_))
        ));
        assert_eq!(parse("").unwrap_err(), DatabaseError::Empty);
        assert!(matches!(
            parse("postgres://h:port/"),
            Err(DatabaseError::Url(_))
        ));
    }

    #[test]
    fn a_password_comes_from_a_file_and_is_shown_to_nobody() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, "very secret\n").unwrap();
        let database = Database::parse("postgres://u@h/d", Some(&file)).unwrap();
        let Database::Postgres(config) = &database else {
            panic!("{database:?}");
        };
        assert_eq!(config.get_password(), Some(&b"very secret"[..]));
        assert!(!format!("{database:?}").contains("secret"));
        let refused = Database::parse("ledger.db", Some(&file)).unwrap_err();
        assert_eq!(refused, DatabaseError::NoPassword);
    }
}
