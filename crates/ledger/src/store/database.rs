//! Which database keeps the ledger, as an administrator names it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_daemon::causes::with_causes;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio_postgres::Config;
use tokio_postgres::config::SslMode;

use super::postgres::{Postgres, Server};
use super::reopening::ReopeningStore;
use super::sqlite::Sqlite;
use super::{Ledger, Store, StoreError};

#[derive(Clone, Debug)]
pub enum Database {
    Sqlite(PathBuf),
    /// Its password is not shown.
    Postgres(Box<Server>),
}

/// What to do if there is no ledger: an SQLite file is missing or empty, or a database has no tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingAction {
    Make,
    Refuse,
}

/// The files that belong to a PostgreSQL URL.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// The password of the user.
    pub password: Option<&'a Path>,
    /// The authorities (PEM) that sign the server's certificate. If this is set, connections are encrypted, and the
    /// certificate must be valid for the host name in the URL.
    pub authorities: Option<&'a Path>,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DatabaseError {
    #[error("name the path of a file, or a PostgreSQL URL such as postgresql://user@host/name")]
    Empty,
    #[error("the PostgreSQL URL cannot be used: {0}")]
    Url(String),
    #[error("cannot use {}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error(
        "a password file and CA certificates need a PostgreSQL URL; an SQLite file has neither"
    )]
    NoServer,
    #[error(
        "sslmode=require needs the CA certificates that sign the server's certificate: give --database-ca"
    )]
    NoAuthorities,
}

impl Database {
    /// A path, or a URL of PostgreSQL.
    pub fn parse(text: &str, files: Files<'_>) -> Result<Self, DatabaseError> {
        let url = ["postgres://", "postgresql://"];
        if !url.iter().any(|scheme| text.starts_with(scheme)) {
            let alone = files.password.is_none() && files.authorities.is_none();
            return match text {
                "" => Err(DatabaseError::Empty),
                path if alone => Ok(Self::Sqlite(PathBuf::from(path))),
                _ => Err(DatabaseError::NoServer),
            };
        }
        let parsed: Result<Config, _> = text.parse();
        let mut config = parsed.map_err(|error| DatabaseError::Url(with_causes(&error)))?;
        if let Some(path) = files.password {
            let read = std::fs::read_to_string(path).map_err(|error| unusable(path, &error))?;
            config.password(read.trim_end_matches(['\r', '\n']));
        }
        let tls = files.authorities.map(believing).transpose()?;
        match tls {
            // Never unencrypted, whatever the server offers.
            Some(_) => config.ssl_mode(SslMode::Require),
            None if config.get_ssl_mode() == SslMode::Require => {
                return Err(DatabaseError::NoAuthorities);
            }
            None => &mut config,
        };
        Ok(Self::Postgres(Box::new(Server { config, tls })))
    }

    /// Opens it, and brings its schema up to date.
    pub async fn open(&self) -> Result<Ledger, StoreError> {
        ReopeningStore::open(self).await.map(Ledger::new)
    }

    /// Like [`open`](Self::open), but succeeds even if the database is damaged or of a newer version. Until an
    /// administrator has repaired it, the ledger refuses all requests with the reason, and each
    /// [`check`](Ledger::check) tries to open it.
    pub async fn open_or_wait(&self) -> Result<Ledger, StoreError> {
        ReopeningStore::open_or_wait(self).await.map(Ledger::new)
    }

    pub(super) async fn store(&self, missing: MissingAction) -> Result<Arc<dyn Store>, StoreError> {
        match self {
            Self::Sqlite(path) => {
                let path = path.clone();
                // On a blocking thread, because a bad disk can make this hang.
                let opening =
                    tokio::task::spawn_blocking(move || Sqlite::open_with(&path, missing));
                let opened = opening.await;
                let opened = opened.map_err(|source| StoreError::database("open", source))?;
                Ok(Arc::new(opened?))
            }
            Self::Postgres(server) => {
                // On the heap: the handshakes make this future large, and with it the future of every caller.
                let opening = Box::pin(Postgres::open_with((**server).clone(), missing));
                Ok(Arc::new(opening.await?))
            }
        }
    }

    /// How many bytes a check reads in this process: none if the database is a server.
    pub(super) async fn size(&self) -> Result<u64, StoreError> {
        match self {
            Self::Sqlite(path) => {
                let file = tokio::fs::metadata(path).await;
                let file = file.map_err(|source| StoreError::database("check", source))?;
                Ok(file.len())
            }
            Self::Postgres(_) => Ok(0),
        }
    }
}

/// TLS with servers whose certificate these authorities have signed.
fn believing(path: &Path) -> Result<ClientConfig, DatabaseError> {
    let pem = std::fs::read(path).map_err(|error| unusable(path, &error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| unusable(path, &error))?;
        roots
            .add(certificate)
            .map_err(|error| unusable(path, &error))?;
    }
    if roots.is_empty() {
        return Err(unusable(path, &"it holds no certificate in PEM"));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(path, &error))?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn unusable(path: &Path, reason: &dyn std::fmt::Display) -> DatabaseError {
    DatabaseError::File {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_postgresql_and_anything_else_is_a_file() {
        let parse = |text: &str| Database::parse(text, Files::default());
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
        let files = Files {
            password: Some(&file),
            ..Files::default()
        };
        let database = Database::parse("postgres://u@h/d", files).unwrap();
        let Database::Postgres(server) = &database else {
            panic!("{database:?}");
        };
        assert_eq!(server.config.get_password(), Some(&b"very secret"[..]));
        assert!(!format!("{database:?}").contains("secret"));
        let refused = Database::parse("ledger.db", files).unwrap_err();
        assert_eq!(refused, DatabaseError::NoServer);
    }

    #[test]
    fn encryption_needs_somebody_to_believe_and_is_then_never_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ca.pem");
        let parse = |url: &str, file: Option<&Path>| {
            let files = Files {
                authorities: file,
                ..Files::default()
            };
            Database::parse(url, files)
        };
        let refused = parse("postgres://u@h/d?sslmode=require", None).unwrap_err();
        assert_eq!(refused, DatabaseError::NoAuthorities);
        std::fs::write(&file, "nothing").unwrap();
        let refused = parse("postgres://u@h/d", Some(&file)).unwrap_err();
        assert!(refused.to_string().contains("ca.pem"), "{refused}");
        let issued = rcgen::generate_simple_self_signed(["h".to_owned()]).unwrap();
        std::fs::write(&file, issued.cert.pem()).unwrap();
        let database = parse("postgres://u@h/d?sslmode=prefer", Some(&file)).unwrap();
        let Database::Postgres(server) = &database else {
            panic!("{database:?}");
        };
        assert_eq!(server.config.get_ssl_mode(), SslMode::Require);
    }
}
