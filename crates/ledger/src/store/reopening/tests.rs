use std::future::pending;
use std::io::Read as _;
use std::net::TcpListener;

use super::*;
use crate::store::database::Files;

const SHORT: Duration = Duration::from_millis(200);

/// A store that has hung.
#[derive(Debug)]
struct Hung;

impl Store for Hung {
    fn write(&self, _write: Write) -> Answer<'_, WriteAnswer> {
        Box::pin(pending())
    }

    fn read(&self, _read: Read) -> Answer<'_, ReadAnswer> {
        Box::pin(pending())
    }
}

fn reopening(database: &Database, state: State) -> ReopeningStore {
    ReopeningStore {
        patience: SHORT,
        ..ReopeningStore::new(database, state)
    }
}

fn database(address: &str) -> Database {
    Database::parse(address, Files::default()).unwrap()
}

async fn is_silent(store: &ReopeningStore) {
    // Generous: without a limit the check would hang for ever.
    let checked = tokio::time::timeout(Duration::from_mins(1), store.check()).await;
    let refused = checked.expect("a check ends").unwrap_err();
    assert!(matches!(refused, StoreError::Silent(_)), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_accepts_connections_and_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        // Reads until the client closes the connection.
        connection.read_to_end(&mut Vec::new())
    });
    let database = database(&format!("postgresql://u@{address}/ledger"));
    let closed = State::closed(&StoreError::Silent(120));
    is_silent(&reopening(&database, closed)).await;
    server.join().unwrap().unwrap();
}

#[tokio::test]
async fn a_check_that_hangs_closes_the_database_and_another_opens_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    let database = database(file.to_str().unwrap());
    database.store(MissingAction::Make).await.unwrap();
    let store = reopening(&database, State::Open(Arc::new(Hung)));
    is_silent(&store).await;
    let refused = store.store().unwrap_err();
    assert!(matches!(refused, StoreError::Closed(_)), "{refused:?}");
    let patient = ReopeningStore {
        patience: PATIENCE,
        ..store
    };
    patient.check().await.unwrap();
    patient.store().unwrap();
}
