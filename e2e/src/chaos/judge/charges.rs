//! What was charged, beside how long containers really ran.

use std::collections::BTreeMap;

use gpushare_core::PodUid;

use super::Life;

/// Times on objects are whole seconds, cut off: a second at the beginning and one at the end.
pub const TOLERANCE: i64 = 2;

/// What the ledger charges for a pod, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charged {
    pub from: i64,
    pub to: i64,
    pub seconds: i64,
}

/// For how long a pod's object said that it holds something, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub from: i64,
    pub to: i64,
}

/// Every second that a container ran and nobody pays for, and every charge for a time in which nothing was held.
pub fn charges(
    lives: &BTreeMap<PodUid, Life>,
    held: &BTreeMap<PodUid, Held>,
    ledger: &BTreeMap<PodUid, Charged>,
    names: &BTreeMap<PodUid, String>,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pod, name) in names {
        let life = lives.get(pod);
        let charged = ledger.get(pod);
        if let Some(life) = life {
            wrong.extend(unpaid(name, pod, *life, charged));
        }
        if let Some(charged) = charged {
            wrong.extend(unearned(name, pod, *charged, life, held.get(pod)));
        }
    }
    wrong
}

fn unpaid(name: &str, pod: &PodUid, life: Life, charged: Option<&Charged>) -> Option<String> {
    let ran = (life.last - life.first) / 1000;
    let (first, last) = (life.first / 1000, life.last / 1000);
    match charged {
        None if ran > TOLERANCE => Some(format!(
            "{name} ({pod}) ran for {ran} s and the ledger has nothing"
        )),
        Some(charged) if charged.seconds + TOLERANCE < ran => Some(format!(
            "{name} ({pod}) ran for {ran} s and {} s are charged",
            charged.seconds
        )),
        Some(charged) if charged.from > first + TOLERANCE || charged.to + TOLERANCE < last => {
            Some(format!(
                "{name} ({pod}) ran from {first} to {last} and is charged from {} to {}",
                charged.from, charged.to
            ))
        }
        _ => None,
    }
}

fn unearned(
    name: &str,
    pod: &PodUid,
    charged: Charged,
    life: Option<&Life>,
    held: Option<&Held>,
) -> Option<String> {
    let ends = life
        .map(|life| life.last)
        .into_iter()
        .chain(held.map(|held| held.to));
    let begins = life
        .map(|life| life.first)
        .into_iter()
        .chain(held.map(|held| held.from));
    let (Some(begin), Some(end)) = (begins.min(), ends.max()) else {
        return Some(format!(
            "{name} ({pod}) is charged {} s and never held anything",
            charged.seconds
        ));
    };
    let (begin, end) = (begin / 1000, end / 1000);
    let most = end - begin + TOLERANCE;
    let outside = charged.from + TOLERANCE < begin || charged.to > end + TOLERANCE;
    (outside || charged.seconds > most).then(|| {
        format!(
            "{name} ({pod}) held its cards from {begin} to {end} and is charged {} s from {} to {}",
            charged.seconds, charged.from, charged.to
        )
    })
}
