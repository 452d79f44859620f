//! The ledger, read while the timekeeper writes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use gpushare_core::PodUid;
use gpushare_ledger::Seconds;
use gpushare_ledger::period::Span;
use gpushare_ledger::store::Ledger;
use gpushare_ledger::store::sqlite::Sqlite;

use super::judge::PodCharge;

/// The formula of time without a price, because the Node was deleted before the timekeeper saw its cards.
const UNKNOWN_CARDS: &str = "unknown-cards/1";

/// What each pod of a namespace is charged for.
pub fn charged(database: &Path, namespace: &str) -> Result<BTreeMap<PodUid, PodCharge>> {
    let whole = Span {
        start: 0,
        end: Seconds::MAX / 4,
    };
    let lines = read(database, async |ledger| {
        Ok(ledger.statement(namespace, whole).await?)
    })?;
    let mut charged: BTreeMap<PodUid, PodCharge> = BTreeMap::new();
    for line in lines {
        let fresh = PodCharge {
            from: line.span.start,
            to: line.span.end,
            ..PodCharge::default()
        };
        let sum = charged.entry(line.pod).or_insert(fresh);
        sum.from = sum.from.min(line.span.start);
        sum.to = sum.to.max(line.span.end);
        sum.seconds += line.seconds;
        if line.formula == UNKNOWN_CARDS {
            sum.unpriced += line.seconds;
        } else {
            sum.micros += line.amount.micros();
            let cards = line.cards.into_iter();
            let cards = cards.map(|card| (card.id, card.holding.memory.held));
            sum.cards.extend(cards);
        }
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
    let name = |pod: &gpushare_ledger::store::MeteredPod| {
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
