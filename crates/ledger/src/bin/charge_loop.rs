//! A writer that tests kill. It charges several pods at once, second after second, each from where the ledger left
//! off, and prints what the ledger has confirmed.
//!
//! `charge-loop sqlite FILE SECONDS` or `charge-loop postgres CONFIG SECONDS`

use std::env;
use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use futures::future::try_join_all;
use gpushare_core::PodUid;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::meter::Charge;
use gpushare_ledger::money::Rate;
use gpushare_ledger::store::postgres::Postgres;
use gpushare_ledger::store::sqlite::Sqlite;
use gpushare_ledger::store::{Batch, Change, Epoch, Ledger};
use tokio_postgres::Config;

const PODS: u32 = 8;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [kind, address, seconds] = &arguments[..] else {
        return Err("usage: charge-loop sqlite|postgres ADDRESS SECONDS".into());
    };
    let ledger = if kind == "sqlite" {
        Ledger::new(Sqlite::open(Path::new(address))?)
    } else {
        Ledger::new(Postgres::open(address.parse::<Config>()?).await?)
    };
    let epoch = ledger.take_over("charge-loop").await?;
    let seconds: i64 = seconds.parse()?;
    try_join_all((0..PODS).map(|number| charge(&ledger, epoch, number, seconds))).await?;
    Ok(())
}

async fn charge(ledger: &Ledger, epoch: Epoch, number: u32, seconds: i64) -> Outcome<()> {
    let pod = PodUid::new(format!("pod-{number}"));
    let from = ledger.pod(&pod).await?.map_or(0, |metered| metered.through);
    for from in from..seconds {
        let charge = Charge {
            pod: pod.clone(),
            namespace: "a".to_owned(),
            name: pod.to_string(),
            from,
            to: from + 1,
            rate: Rate::ONE,
            formula: "max/1".to_owned(),
            cards: Arc::default(),
            legs: vec![Leg::new("b", 0)],
        };
        let changes = vec![Change::Charge(charge)];
        ledger.record(Batch::new(epoch, from, changes)).await?;
        let mut output = io::stdout().lock();
        writeln!(output, "{number} {}", from + 1)?;
        output.flush()?;
    }
    Ok(())
}
