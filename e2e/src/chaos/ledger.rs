//! The ledger, read beside the timekeeper that writes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use gpushare_core::PodUid;
use gpushare_timekeeper::Seconds;
use gpushare_timekeeper::period::Span;
use gpushare_timekeeper::store::Ledger;
use gpushare_timekeeper::store::sqlite::Sqlite;

use super::judge::Charged;

/// What each pod of a namespace is charged for.
pub fn charged(database: &Path, namespace: &str) -> Result<BTreeMap<PodUid, Charged>> {
    let whole = Span {
        start: 0,
        end: Seconds::MAX / 4,
    };
    let lines = read(database, async |ledger| {
        Ok(ledger.statement(namespace, whole).await?)
    })?;
    let mut charged: BTreeMap<PodUid, Charged> = BTreeMap::new();
    for line in lines {
        let fresh = Charged {
            from: line.span.start,
            to: line.span.end,
            seconds: 0,
        };
        let sum = charged.entry(line.pod).or_insert(fresh);
        sum.from = sum.from.min(line.span.start);
        sum.to = sum.to.max(line.span.end);
        sum.seconds += line.seconds;
    }
    Ok(charged)
}

/// Everything in the ledger that contradicts something else there.
pub fn contradictions(database: &Path) -> Result<Vec<String>> {
    read(database, async |ledger| Ok(ledger.audit().await?))
}

/// Pods whose end the ledger does not know.
pub fn unsettled(database: &Path) -> Result<Vec<String>> {
    let open = read(database, async |ledger| Ok(ledger.unsettled().await?))?;
    let name = |pod: &gpushare_timekeeper::store::Metered| {
        format!("{}/{} ({})", pod.namespace, pod.name, pod.pod)
    };
    Ok(open.iter().map(name).collect())
}

fn read<T>(database: &Path, work: impl AsyncFnOnce(Ledger) -> Result<T>) -> Result<T> {
    let ledger = Ledger::new(Sqlite::open(database)?);
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work(ledger))
}
