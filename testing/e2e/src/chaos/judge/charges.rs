//! Compares what was charged with how long containers really ran.

use std::collections::BTreeMap;

use gpushare_core::{CardId, PodUid};

use super::Life;
use crate::chaos::Shares;

/// Times on objects are truncated to whole seconds, which can cost one second at the beginning and one at the end.
pub const TOLERANCE: i64 = 2;
/// What a second of a whole card costs, in millionths.
const WHOLE_CARD: u64 = 1_000_000;

/// What the ledger charges for a pod, in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodCharge {
    pub from: i64,
    pub to: i64,
    pub seconds: i64,
    /// How many of these seconds cost nothing, because the cards were not known.
    pub unpriced: i64,
    /// The cost of the other seconds, in millionths of a second of a whole card.
    pub micros: i64,
    pub cards: Shares,
}

/// How long a pod's object said that the pod holds something, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldTime {
    pub from: i64,
    pub to: i64,
}

/// A time in which the recorder may have missed events, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub from: i64,
    pub to: i64,
}

/// What was seen of metered pods.
#[derive(Clone, Debug, Default)]
pub struct MeteredPods {
    /// Every pod that was bound with a record.
    pub names: BTreeMap<PodUid, String>,
    pub booked: BTreeMap<PodUid, Shares>,
    pub held: BTreeMap<PodUid, HeldTime>,
    pub lives: BTreeMap<PodUid, Life>,
    pub gaps: Vec<Gap>,
    pub sizes: BTreeMap<CardId, u64>,
}

/// Every second that a container ran uncharged, every charge for a time in which the pod held nothing, and every charge
/// for other shares than the pod held.
pub fn charges(seen: &MeteredPods, ledger: &BTreeMap<PodUid, PodCharge>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pod, name) in &seen.names {
        let life = seen.lives.get(pod);
        let charged = ledger.get(pod);
        if let Some(life) = life {
            wrong.extend(unpaid(name, pod, *life, charged));
        }
        if let Some(charged) = charged {
            wrong.extend(unearned(name, pod, charged, life, seen.held.get(pod)));
            let booked = seen.booked.get(pod).cloned().unwrap_or_default();
            wrong.extend(mispriced(name, pod, charged, &booked, &seen.sizes));
        }
    }
    for (pod, charged) in ledger {
        if !seen.names.contains_key(pod) && !missed(&seen.gaps, charged.from) {
            wrong.push(format!(
                "the ledger charges {pod} from {} to {}, which was never seen bound",
                charged.from, charged.to
            ));
        }
    }
    wrong
}

/// Whether the recorder may have missed a bind at this second.
fn missed(gaps: &[Gap], bound: i64) -> bool {
    gaps.iter()
        .any(|gap| gap.from / 1000 <= bound + TOLERANCE && bound <= gap.to / 1000 + TOLERANCE)
}

fn mispriced(
    name: &str,
    pod: &PodUid,
    charged: &PodCharge,
    booked: &Shares,
    sizes: &BTreeMap<CardId, u64>,
) -> Option<String> {
    let priced = charged.seconds - charged.unpriced;
    if priced == 0 {
        return None;
    }
    let part = |(card, mib): (&CardId, &u64)| {
        let size = sizes.get(card).copied().unwrap_or(1);
        (WHOLE_CARD * mib).div_ceil(size)
    };
    let rate: u64 = booked.iter().map(part).sum();
    let expected = i64::try_from(rate)
        .unwrap_or(i64::MAX)
        .saturating_mul(priced);
    (charged.cards != *booked || charged.micros != expected).then(|| {
        format!(
            "{name} ({pod}) held {booked:?}, which costs {expected} millionths in {priced} s, and is charged {} for {:?}",
            charged.micros, charged.cards
        )
    })
}

fn unpaid(name: &str, pod: &PodUid, life: Life, charged: Option<&PodCharge>) -> Option<String> {
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
    charged: &PodCharge,
    life: Option<&Life>,
    held: Option<&HeldTime>,
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
