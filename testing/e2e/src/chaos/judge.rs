//! The rules that must hold, as functions over what was seen. Each returns a sentence for every violation.

mod charges;
mod crowd;
mod harvest;

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::{CardId, PodUid};

use super::Shares;

pub use charges::{Gap, HeldTime, MeteredPods, PodCharge, TOLERANCE, charges};
pub use crowd::{Glimpse, Life, RunningContainer, crowded, lives};
pub use harvest::{Harvest, barren};

/// What the watch showed of a pod's booking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The pod is bound with this record and has not ended.
    Holds {
        pod: PodUid,
        name: String,
        shares: Shares,
    },
    /// The pod is bound and has not ended, and has no record that can be trusted.
    Unproved {
        pod: PodUid,
        name: String,
        why: String,
    },
    /// The pod has ended, or its object is gone.
    Free { pod: PodUid },
}

/// Every moment of the history at which the records exceeded a card's size, every record that changed, and every bound
/// pod without a record.
pub fn overbooked(history: &[Observation], sizes: &BTreeMap<CardId, u64>) -> Vec<String> {
    let mut held: BTreeMap<&PodUid, (&str, &Shares)> = BTreeMap::new();
    let mut wrong = BTreeSet::new();
    for seen in history {
        match seen {
            Observation::Free { pod } => {
                held.remove(pod);
            }
            Observation::Unproved { pod, name, why } => {
                wrong.insert(format!(
                    "{name} ({pod}) is bound and nothing proves what it holds: {why}"
                ));
            }
            Observation::Holds { pod, name, shares } => {
                if let Some((_, before)) = held.insert(pod, (name, shares))
                    && before != shares
                {
                    wrong.insert(format!(
                        "the record of {name} ({pod}) changed from {before:?} to {shares:?}"
                    ));
                }
            }
        }
        for (card, size) in sizes {
            let on_card = || {
                held.values()
                    .filter_map(|(name, all)| Some((*name, *all.get(card)?)))
            };
            let sum: u64 = on_card().map(|(_, mib)| mib).sum();
            if sum > *size {
                let who: Vec<String> = on_card()
                    .map(|(name, mib)| format!("{name} {mib}"))
                    .collect();
                wrong.insert(format!(
                    "the watch history shows {sum} MiB recorded on card {card} of {size}: {}",
                    who.join(", ")
                ));
            }
        }
    }
    wrong.into_iter().collect()
}

/// What every part says at one moment of calm. Pods are named `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CalmSnapshot {
    /// The leading extender's books.
    pub books: BTreeMap<String, Shares>,
    /// The records of bound pods that have not ended.
    pub records: BTreeMap<String, Shares>,
    /// The containers that run.
    pub running: BTreeMap<String, Shares>,
    /// Pods with a CDI file.
    pub files: BTreeSet<String>,
    /// Pods whose objects exist, ended or not.
    pub objects: BTreeSet<String>,
    /// Pods whose containers cannot be started; they hold their shares all the same.
    pub unstartable: BTreeSet<String>,
    /// Waiting pods for which there is room.
    pub starved: BTreeSet<String>,
    /// Anything else that must not be there.
    pub remains: BTreeSet<String>,
}

/// Every difference between books, records, files and containers.
pub fn disagreements(calm: &CalmSnapshot) -> Vec<String> {
    let mut wrong = Vec::new();
    let none = Shares::new();
    let pods = calm.books.keys().chain(calm.records.keys());
    let pods: BTreeSet<&String> = pods.chain(calm.running.keys()).collect();
    for pod in pods {
        let of = |all: &BTreeMap<String, Shares>| all.get(pod).unwrap_or(&none).clone();
        let (books, record, runs) = (of(&calm.books), of(&calm.records), of(&calm.running));
        if books != record {
            wrong.push(format!(
                "{pod}: the books say {books:?}, its record {record:?}"
            ));
        }
        let stands_still = runs.is_empty() && calm.unstartable.contains(pod);
        if runs != record && !stands_still {
            wrong.push(format!(
                "{pod}: its record says {record:?}, what runs has {runs:?}"
            ));
        }
        if !runs.is_empty() && !calm.files.contains(pod) {
            wrong.push(format!("{pod} runs on a card and has no CDI file"));
        }
    }
    for pod in calm.files.difference(&calm.objects) {
        wrong.push(format!("a CDI file of {pod} is left, whose object is gone"));
    }
    for pod in &calm.starved {
        wrong.push(format!("{pod} waits although there is room for it"));
    }
    wrong.extend(calm.remains.iter().cloned());
    wrong
}

/// Everything that is left although every pod was deleted.
pub fn leaks(calm: &CalmSnapshot) -> Vec<String> {
    let mut wrong = Vec::new();
    for (pod, shares) in &calm.books {
        wrong.push(format!("the books still hold {shares:?} for {pod}"));
    }
    for (pod, shares) in &calm.running {
        wrong.push(format!("a container of {pod} still runs on {shares:?}"));
    }
    for pod in &calm.files {
        wrong.push(format!("a CDI file of {pod} is left"));
    }
    for pod in &calm.objects {
        wrong.push(format!("the object of {pod} does not go"));
    }
    wrong.extend(calm.remains.iter().cloned());
    wrong
}

#[cfg(test)]
mod tests;
