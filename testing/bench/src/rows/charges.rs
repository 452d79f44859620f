//! Charges through the ledger, beside bare inserts of the same rows into the same database, in transactions of the same
//! size that wait for the disk in the same way.

mod bare;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use gpushare_core::PodUid;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::meter::Charge;
use gpushare_ledger::money::Rate;
use gpushare_ledger::store::postgres::Postgres as PostgresStore;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Batch, Change, Epoch, Ledger};
use gpushare_rig::postgres::{self, Postgres};
use tokio_postgres::Config;

use self::bare::Bare;
use crate::helper;
use crate::lab::Lab;
use crate::measure::median;
use crate::report::{Limit, Row, Unit};

/// Changes in one transaction, as the timekeeper writes them.
const TOGETHER: i64 = 256;
const PODS: i64 = 2_048;
const BUDGETS: i64 = 40;
/// A cell of the timekeeper's grid.
const CELL: i64 = 300;
const TURNS: usize = 6;
const TURN: Duration = Duration::from_secs(2);
/// Three times what 40,000 pods cause with the default grid.
const LEAST: f64 = 400.0;

pub(super) fn run(_lab: &mut Lab) -> Result<Vec<Row>> {
    let runtime = helper::runtime()?;
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("ledger.db");
    let sqlite = runtime.block_on(on_sqlite(&file));
    let postgres = Postgres::durable().and_then(|server| runtime.block_on(on_postgres(&server)));
    Ok([("charges/s, SQLite", sqlite), ("charges/s, PostgreSQL", postgres)]
        .into_iter()
        .map(|(name, measured)| match measured {
            Ok((through, bare)) => Row::new(name, through, Unit::PerSecond)
                .floor(bare)
                .limit(Limit::AtLeast(LEAST))
                .note(format!(
                    "{TOGETHER} in each transaction, each with two budgets; the floor is bare inserts of the same rows"
                )),
            Err(error) => Row::not_measured(name, &error),
        })
        .collect())
}

async fn on_sqlite(file: &Path) -> Result<(f64, f64)> {
    let ledger = Ledger::new(Sqlite::open(file)?);
    in_turns(ledger, Bare::sqlite(file)?).await
}

async fn on_postgres(server: &Postgres) -> Result<(f64, f64)> {
    let mut config = Config::new();
    config
        .host_path(server.socket())
        .user(postgres::USER)
        .dbname("postgres");
    let ledger = Ledger::new(PostgresStore::open(config.clone()).await?);
    in_turns(ledger, Bare::postgres(&config).await?).await
}

/// The medians of charges/s, through the ledger and bare.
async fn in_turns(ledger: Ledger, mut bare: Bare) -> Result<(f64, f64)> {
    let epoch = ledger.take_over("bench").await?;
    let (mut next, mut next_bare) = (0, 0);
    let (mut through, mut barely) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        through.push(
            rate(async || {
                record(&ledger, epoch, next).await?;
                next += 1;
                Ok(())
            })
            .await?,
        );
        barely.push(
            rate(async || {
                bare.insert(&charges(next_bare)).await?;
                next_bare += 1;
                Ok(())
            })
            .await?,
        );
    }
    let problems = ledger.audit().await?;
    anyhow::ensure!(problems.is_empty(), "the books are wrong: {problems:?}");
    Ok((median(through)?, median(barely)?))
}

/// Charges per second during one turn.
async fn rate(mut batch: impl AsyncFnMut() -> Result<()>) -> Result<f64> {
    let began = Instant::now();
    let mut charges = 0;
    while began.elapsed() < TURN {
        batch().await?;
        charges += TOGETHER;
    }
    Ok(charges as f64 / began.elapsed().as_secs_f64())
}

async fn record(ledger: &Ledger, epoch: Epoch, number: i64) -> Result<()> {
    let due = charges(number);
    let now = due.first().context("no charges")?.to;
    let changes = due.into_iter().map(Change::Charge).collect();
    ledger
        .record(Batch {
            epoch,
            now,
            changes,
        })
        .await?;
    Ok(())
}

/// The charges of the transaction with this number: all pods in turn, cell after cell.
fn charges(number: i64) -> Vec<Charge> {
    let (round, part) = (number / (PODS / TOGETHER), number % (PODS / TOGETHER));
    let leg = |budget: String| Leg { budget, slot: 0 };
    (part * TOGETHER..(part + 1) * TOGETHER)
        .map(|pod| Charge {
            pod: PodUid::new(format!("00000000-0000-4000-8000-{pod:012}")),
            namespace: format!("team-{}", pod % BUDGETS),
            name: format!("train-{pod}"),
            from: round * CELL,
            to: (round + 1) * CELL,
            rate: Rate::ONE,
            formula: "max/1".to_owned(),
            cards: Arc::default(),
            legs: vec![
                leg(format!("budget-{}", pod % BUDGETS)),
                leg("everybody".to_owned()),
            ],
        })
        .collect()
}
