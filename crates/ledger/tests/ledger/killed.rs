//! Writers are killed again and again while they write 10,000 charges: no confirmed charge is lost, and none is
//! written twice.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use gpushare_core::PodUid;
use gpushare_ledger::period::Span;

use crate::database::{Database, Kind};

const PODS: i64 = 8;
const SECONDS: i64 = 1_250;
/// How many confirmations each writer but the last lives for.
const LIVES: [usize; 19] = [
    1, 900, 7, 400, 333, 2, 650, 64, 1_000, 128, 511, 3, 777, 50, 1_200, 19, 300, 840, 100,
];

#[tokio::test]
async fn a_killed_writer_loses_and_doubles_nothing_in_sqlite() {
    killed(Kind::Sqlite).await;
}

#[tokio::test]
async fn a_killed_writer_loses_and_doubles_nothing_in_postgresql() {
    killed(Kind::Postgres).await;
}

async fn killed(kind: Kind) {
    let database = Database::new(kind).await;
    // Up to where the ledger has confirmed each pod.
    let mut confirmed: BTreeMap<String, i64> = BTreeMap::new();
    for life in LIVES.into_iter().map(Some).chain([None]) {
        write(&database, life, &mut confirmed);
        let ledger = database.open().await;
        for (pod, seconds) in &confirmed {
            let metered = ledger.pod(&PodUid::new(pod)).await.unwrap().unwrap();
            assert!(
                metered.through >= *seconds,
                "{pod} lost what was confirmed at {seconds}"
            );
        }
    }
    let ledger = database.open().await;
    let all = Span::new(0, SECONDS);
    let lines = ledger.statement("a", all).await.unwrap();
    assert_eq!(lines.len(), 8);
    assert!(
        lines.iter().all(|line| line.seconds == SECONDS),
        "{lines:?}"
    );
    let used = ledger.balance("b", all).await.unwrap().used;
    assert_eq!(used.whole_seconds(), PODS * SECONDS);
    assert_eq!(ledger.audit().await.unwrap(), [""; 0]);
}

/// Runs a writer and kills it after this many confirmed charges, or lets it finish.
fn write(database: &Database, life: Option<usize>, confirmed: &mut BTreeMap<String, i64>) {
    let (kind, address) = database.address();
    let mut writer = Command::new(env!("CARGO_BIN_EXE_charge-loop"))
        .args([kind, address, SECONDS.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let mut lines = output.lines();
    let mut note = |line: String| {
        let (pod, seconds) = line.split_once(' ').unwrap();
        confirmed.insert(format!("pod-{pod}"), seconds.parse().unwrap());
    };
    for line in lines.by_ref().take(life.unwrap_or(usize::MAX)) {
        note(line.unwrap());
    }
    if life.is_some() {
        writer.kill().unwrap();
        // What the writer printed before it died counts too; its last line may be incomplete.
        for line in lines.map_while(Result::ok).filter(|line| complete(line)) {
            note(line);
        }
        writer.wait().unwrap();
    } else {
        assert!(writer.wait().unwrap().success());
    }
}

/// The writer flushes whole lines, and a pipe takes small ones as a whole or not at all.
fn complete(line: &str) -> bool {
    line.split_once(' ')
        .is_some_and(|(_, seconds)| !seconds.is_empty())
}
