//! Bare inserts: one row for the entry, one for the charge, and one for each leg's transfer, into tables without
//! indexes, references, triggers or sums. Each row is one prepared statement, as in the ledger.

use std::path::Path;

use anyhow::Result;
use gpushare_ledger::meter::Charge;
use rusqlite::{Connection, params};
use tokio_postgres::{Client, Config, NoTls, Statement};

/// Understood by both databases; the first column numbers the rows.
const TABLES: [&str; 3] = [
    "CREATE TABLE bare_entries (id BIGINT PRIMARY KEY, kind TEXT, identity TEXT, epoch BIGINT, written_s BIGINT)",
    "CREATE TABLE bare_charges (entry BIGINT PRIMARY KEY, run TEXT, from_s BIGINT, to_s BIGINT, rate BIGINT, formula TEXT)",
    "CREATE TABLE bare_transfers (id BIGINT PRIMARY KEY, entry BIGINT, budget TEXT, namespace TEXT, amount BIGINT)",
];
const ENTRY: &str = "INSERT INTO bare_entries (id, kind, identity, epoch, written_s) VALUES ($1, 'charge', $2, 1, $3)";
const CHARGE: &str = "INSERT INTO bare_charges (entry, run, from_s, to_s, rate, formula) VALUES ($1, $2, $3, $4, $5, $6)";
const TRANSFER: &str =
    "INSERT INTO bare_transfers (id, entry, budget, namespace, amount) VALUES ($1, $2, $3, $4, $5)";

/// A writer that only inserts.
pub(super) enum Bare {
    Sqlite {
        connection: Connection,
        rows: i64,
    },
    Postgres {
        client: Client,
        statements: [Statement; 3],
        rows: i64,
    },
}

impl Bare {
    /// Opens the database with the ledger's settings: every commit waits for the disk.
    pub(super) fn sqlite(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        for table in TABLES {
            connection.execute_batch(table)?;
        }
        Ok(Self::Sqlite {
            connection,
            rows: 0,
        })
    }

    pub(super) async fn postgres(config: &Config) -> Result<Self> {
        let (client, connection) = config.connect(NoTls).await?;
        // The connection ends with the client.
        tokio::spawn(connection);
        for table in TABLES {
            client.batch_execute(table).await?;
        }
        let statements = [
            client.prepare(ENTRY).await?,
            client.prepare(CHARGE).await?,
            client.prepare(TRANSFER).await?,
        ];
        Ok(Self::Postgres {
            client,
            statements,
            rows: 0,
        })
    }

    /// Inserts all charges in one transaction.
    pub(super) async fn insert(&mut self, charges: &[Charge]) -> Result<()> {
        match self {
            Self::Sqlite { connection, rows } => into_sqlite(connection, rows, charges),
            Self::Postgres {
                client,
                statements,
                rows,
            } => into_postgres(client, statements, rows, charges).await,
        }
    }
}

fn into_sqlite(connection: &mut Connection, rows: &mut i64, charges: &[Charge]) -> Result<()> {
    let transaction = connection.transaction()?;
    for charge in charges {
        *rows += 1;
        let entry = *rows;
        let (run, amount) = (charge.pod.as_str(), charge.amount()?.micros());
        let mut statement = transaction.prepare_cached(ENTRY)?;
        statement.execute(params![entry, identity(charge), charge.to])?;
        let mut statement = transaction.prepare_cached(CHARGE)?;
        let rate = charge.rate.micros();
        statement.execute(params![
            entry,
            run,
            charge.from,
            charge.to,
            rate,
            charge.formula
        ])?;
        let mut statement = transaction.prepare_cached(TRANSFER)?;
        for leg in &charge.legs {
            *rows += 1;
            statement.execute(params![*rows, entry, leg.budget, charge.namespace, amount])?;
        }
    }
    transaction.commit()?;
    Ok(())
}

async fn into_postgres(
    client: &mut Client,
    [entries, pieces, transfers]: &[Statement; 3],
    rows: &mut i64,
    charges: &[Charge],
) -> Result<()> {
    let transaction = client.transaction().await?;
    for charge in charges {
        *rows += 1;
        let entry = *rows;
        let (run, amount) = (charge.pod.as_str(), charge.amount()?.micros());
        let (identity, rate) = (identity(charge), charge.rate.micros());
        transaction
            .execute(entries, &[&entry, &identity, &charge.to])
            .await?;
        transaction
            .execute(
                pieces,
                &[
                    &entry,
                    &run,
                    &charge.from,
                    &charge.to,
                    &rate,
                    &charge.formula,
                ],
            )
            .await?;
        for leg in &charge.legs {
            *rows += 1;
            transaction
                .execute(
                    transfers,
                    &[&*rows, &entry, &leg.budget, &charge.namespace, &amount],
                )
                .await?;
        }
    }
    transaction.commit().await?;
    Ok(())
}

fn identity(charge: &Charge) -> String {
    format!("charge/{}/0/{}", charge.pod, charge.from)
}
