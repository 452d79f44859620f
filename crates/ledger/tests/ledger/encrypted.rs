//! A ledger in a PostgreSQL that is reached over a network: encrypted, and only with the server that was meant.

use std::path::PathBuf;

use gpushare_daemon::causes::with_causes;
use gpushare_ledger::store::database::{Database, Files};
use gpushare_ledger::store::{Ledger, StoreError};
use gpushare_rig::postgres::{self, Postgres};
use tempfile::TempDir;

struct Encrypted {
    server: Postgres,
    directory: TempDir,
}

impl Encrypted {
    /// A server with a certificate for this name.
    fn start(name: &str) -> Self {
        let issued = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let (certificate, key) = (issued.cert.pem(), issued.signing_key.serialize_pem());
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("its.pem"), &certificate).unwrap();
        let other = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        std::fs::write(directory.path().join("other.pem"), other.cert.pem()).unwrap();
        Self {
            server: Postgres::with_tls(&certificate, &key).unwrap(),
            directory,
        }
    }

    async fn open(&self, believed: Option<&str>) -> Result<Ledger, StoreError> {
        let (user, port) = (postgres::USER, self.server.port().unwrap());
        let url = format!("postgresql://{user}@127.0.0.1:{port}/postgres");
        let file: Option<PathBuf> = believed.map(|file| self.directory.path().join(file));
        let files = Files {
            authorities: file.as_deref(),
            ..Files::default()
        };
        Database::parse(&url, files).unwrap().open().await
    }

    async fn refusal(&self, believed: &str) -> String {
        with_causes(&self.open(Some(believed)).await.unwrap_err())
    }
}

#[tokio::test]
async fn a_server_that_proves_itself_keeps_the_ledger_encrypted() {
    let encrypted = Encrypted::start("127.0.0.1");
    let ledger = encrypted.open(Some("its.pem")).await.unwrap();
    ledger.take_over("one").await.unwrap();
    assert_eq!(ledger.unsettled().await.unwrap(), []);
    let refused = encrypted.refusal("other.pem").await;
    assert!(refused.contains("certificate"), "{refused}");
    // Without authorities the client does not require encryption, and this server does not either.
    encrypted.open(None).await.unwrap();
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let encrypted = Encrypted::start("elsewhere.example");
    let refused = encrypted.refusal("its.pem").await;
    assert!(refused.contains("not valid for name"), "{refused}");
}
