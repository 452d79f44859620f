//! Which containers really ran at the same time, from repeated looks at their processes.

use std::collections::BTreeMap;

use gpushare_core::{CardId, PodUid};

use crate::chaos::Shares;

/// A container with cards that was seen alive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunningContainer {
    pub pod: PodUid,
    /// The runtime's id of the container.
    pub container: String,
    pub shares: Shares,
}

/// Everything that was seen alive in one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glimpse {
    /// In milliseconds since 1970.
    pub at: i64,
    pub running: Vec<RunningContainer>,
}

/// When the containers of a pod were first and last seen, in milliseconds since 1970. They lived at least that long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first: i64,
    pub last: i64,
}

/// Every card whose size was exceeded by containers that ran together.
pub fn crowded(glimpses: &[Glimpse], sizes: &BTreeMap<CardId, u64>) -> Vec<String> {
    let mut wrong = BTreeMap::new();
    for (number, now) in glimpses.iter().enumerate() {
        let before = number.checked_sub(1).and_then(|last| glimpses.get(last));
        let after = glimpses.get(number + 1);
        for together in together(before, now, after) {
            for (card, size) in sizes {
                let on_card = || {
                    let together = together.iter();
                    together.filter_map(|one| Some((&one.pod, *one.shares.get(card)?)))
                };
                let sum: u64 = on_card().map(|(_, mib)| mib).sum();
                if sum > *size {
                    let who: Vec<String> =
                        on_card().map(|(pod, mib)| format!("{pod} {mib}")).collect();
                    let text = format!(
                        "containers with {sum} MiB ran together on card {card} of {size}: {}",
                        who.join(", ")
                    );
                    wrong.entry(text).or_insert(now.at);
                }
            }
        }
    }
    wrong
        .into_iter()
        .map(|(text, at)| format!("{text} (first at {at} ms)"))
        .collect()
}

/// Containers that certainly ran at the same moment. A look takes time, so the containers in it need not have run
/// together. If the previous look also shows a container, it was running when this look began. If the previous and the
/// next look both show it, it ran all the time between, so it ran beside every container of this look.
fn together<'a>(
    before: Option<&Glimpse>,
    now: &'a Glimpse,
    after: Option<&Glimpse>,
) -> Vec<Vec<&'a RunningContainer>> {
    let in_look = |look: Option<&Glimpse>, one: &RunningContainer| {
        let mut running = look.into_iter().flat_map(|look| &look.running);
        running.any(|other| other.container == one.container)
    };
    let (old, new): (Vec<_>, Vec<_>) = now.running.iter().partition(|one| in_look(before, one));
    let lasting = old.iter().copied().filter(|one| in_look(after, one));
    let lasting: Vec<&RunningContainer> = lasting.collect();
    let beside = new.into_iter().map(|one| {
        let mut together = lasting.clone();
        together.push(one);
        together
    });
    std::iter::once(old).chain(beside).collect()
}

/// From when to when each pod's containers were seen.
pub fn lives(glimpses: &[Glimpse]) -> BTreeMap<PodUid, Life> {
    let mut lives: BTreeMap<PodUid, Life> = BTreeMap::new();
    for glimpse in glimpses {
        for one in &glimpse.running {
            let fresh = Life {
                first: glimpse.at,
                last: glimpse.at,
            };
            lives.entry(one.pod.clone()).or_insert(fresh).last = glimpse.at;
        }
    }
    lives
}
