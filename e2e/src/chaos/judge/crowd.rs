//! What really ran together, from looking at the containers' processes again and again.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::{CardId, PodUid};

use crate::chaos::Shares;

/// A container with cards that was seen alive.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Running {
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
    pub running: Vec<Running>,
}

/// When the containers of a pod were first and last seen, in milliseconds since 1970. They have lived at least so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    pub first: i64,
    pub last: i64,
}

/// Every card on which containers really had more than it has. A look is not one moment, so only what two looks in a
/// row show counts.
pub fn crowded(glimpses: &[Glimpse], sizes: &BTreeMap<CardId, u64>) -> Vec<String> {
    let mut wrong = BTreeMap::new();
    for pair in glimpses.windows(2) {
        let [before, now] = pair else { continue };
        let known: BTreeSet<&str> = before.running.iter().map(|one| &*one.container).collect();
        let both = || {
            now.running
                .iter()
                .filter(|one| known.contains(&*one.container))
        };
        for (card, size) in sizes {
            let on_card = || both().filter_map(|one| Some((&one.pod, *one.shares.get(card)?)));
            let sum: u64 = on_card().map(|(_, mib)| mib).sum();
            if sum > *size {
                let who: Vec<String> = on_card().map(|(pod, mib)| format!("{pod} {mib}")).collect();
                let text = format!(
                    "containers with {sum} MiB ran together on card {card} of {size}: {}",
                    who.join(", ")
                );
                wrong.entry(text).or_insert(now.at);
            }
        }
    }
    wrong
        .into_iter()
        .map(|(text, at)| format!("{text} (first at {at} ms)"))
        .collect()
}

/// How long each pod's containers were seen.
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
