//! What the API server showed of all pods, from a separate watch that is not disturbed. The API server itself restarts
//! in a campaign: then the watch begins with a new list, and what happened in between is missing. Such gaps are
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use futures::StreamExt;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::MEMORY;
use gpushare_core::{Amounts, CardId, PodUid};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use gpushare_rig::Rig;
use jiff::Timestamp;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use parking_lot::Mutex;

use super::Shares;
use super::judge::{Gap, HeldTime, Observation};
use super::plan::TENANTS;
use crate::follower::Follower;
use crate::setup::Setup;
use crate::world::client;

/// Records from its start until it is dropped.
#[derive(Debug)]
pub struct Recorder {
    notes: Arc<Mutex<Notes>>,
    follower: Follower,
}

#[derive(Clone, Debug, Default)]
pub struct Notes {
    pub history: Vec<Observation>,
    /// When each pod was first and last seen to hold something.
    pub held: BTreeMap<PodUid, HeldTime>,
    /// `namespace/name` of every pod that was ever bound with a record.
    pub names: BTreeMap<PodUid, String>,
    /// What each of these pods holds, according to its record.
    pub booked: BTreeMap<PodUid, Shares>,
    /// The times after which the watch had to begin with a new list.
    pub gaps: Vec<Gap>,
    /// What each pod holds now, according to the record with which it was bound, whatever its other annotations say.
    pub holding: BTreeMap<PodUid, Shares>,
    sizes: BTreeMap<CardId, u64>,
    /// When the watch last showed something, in milliseconds since 1970.
    heard: i64,
}

impl Recorder {
    pub fn start(rig: &Arc<Rig>, sizes: BTreeMap<CardId, u64>) -> Self {
        let notes = Arc::new(Mutex::new(Notes {
            sizes,
            ..Notes::default()
        }));
        let into = notes.clone();
        let follower = Follower::start(rig, |kubeconfig, ready| async move {
            follow(&kubeconfig, &into, ready).await;
        });
        Self { notes, follower }
    }

    pub fn notes(&self) -> Notes {
        self.follower.assert_alive();
        self.notes.lock().clone()
    }
}

impl Notes {
    fn shown(&mut self, pod: &slim::Pod, dialects: &Dialects) {
        let facts = PodFacts::new(pod, dialects);
        if facts.ended {
            self.gone(&facts.uid);
        } else if self.holding.contains_key(&facts.uid) {
            self.touch(&facts.uid);
        }
        let name = format!("{}/{}", facts.namespace, facts.name);
        let shares = match shares(&facts, dialects, &self.sizes) {
            None => return,
            Some(Ok(shares)) => shares,
            Some(Err(why)) => {
                if !facts.ended && TENANTS.contains(&&*facts.namespace) {
                    let pod = facts.uid;
                    self.history.push(Observation::Unproved { pod, name, why });
                }
                return;
            }
        };
        self.names.insert(facts.uid.clone(), name.clone());
        self.booked.insert(facts.uid.clone(), shares.clone());
        if facts.ended {
            return;
        }
        self.holding.insert(facts.uid.clone(), shares.clone());
        self.touch(&facts.uid);
        self.history.push(Observation::Holds {
            pod: facts.uid,
            name,
            shares,
        });
    }

    fn gone(&mut self, pod: &PodUid) {
        if self.holding.remove(pod).is_some() {
            self.touch(pod);
            self.history.push(Observation::Free { pod: pod.clone() });
        }
    }

    /// Handles a new list, which shows all remaining pods. Handles ended pods first, because others may already use
    /// their room.
    fn listed(&mut self, list: &[slim::Pod], dialects: &Dialects) {
        let left: BTreeSet<PodUid> = list.iter().map(uid).collect();
        let held = self.holding.keys();
        let missed: Vec<PodUid> = held.filter(|pod| !left.contains(*pod)).cloned().collect();
        for pod in missed {
            self.gone(&pod);
        }
        let ended = |pod: &&slim::Pod| PodFacts::new(pod, dialects).ended;
        let (over, rest): (Vec<_>, Vec<_>) = list.iter().partition(ended);
        for pod in over.into_iter().chain(rest) {
            self.shown(pod, dialects);
        }
    }

    /// Notes that the watch has just shown something. Returns the previous such time.
    fn hears(&mut self) -> i64 {
        std::mem::replace(&mut self.heard, Timestamp::now().as_millisecond())
    }

    fn touch(&mut self, pod: &PodUid) {
        let now = Timestamp::now().as_millisecond();
        let fresh = HeldTime { from: now, to: now };
        self.held.entry(pod.clone()).or_insert(fresh).to = now;
    }
}

/// The memory that a bound pod's record gives it on each card, or why the record cannot be trusted.
fn shares(
    facts: &PodFacts,
    dialects: &Dialects,
    sizes: &BTreeMap<CardId, u64>,
) -> Option<Result<Shares, String>> {
    facts.node.as_ref()?;
    let bound = match facts.bound(&dialects.classes) {
        Some(Ok(bound)) => bound,
        Some(Err(error)) => return Some(Err(error.to_string())),
        None => {
            let why = format!(
                "it asks for {:?}, its record is {:?}",
                facts.ask,
                facts.record()
            );
            return Some(Err(why));
        }
    };
    let charges = bound.placement.charges(&bound.ask).into_iter();
    let shares = charges.map(|(card, hold)| {
        let size = sizes.get(&card).copied().unwrap_or_default();
        let held = hold.on(&Amounts::of(MEMORY, size)).get(MEMORY);
        (card, held)
    });
    Some(Ok(shares.collect()))
}

async fn follow(kubeconfig: &Path, notes: &Mutex<Notes>, ready: Sender<()>) {
    let dialects = Setup::cards(&[]).dialects();
    let pods: Api<slim::Pod> = Api::all(client(kubeconfig).await);
    let mut watch = pin!(watcher(pods, watcher::Config::default()).default_backoff());
    let mut ready = Some(ready);
    let mut list = Vec::new();
    while let Some(event) = watch.next().await {
        match event {
            Ok(watcher::Event::Init) => list.clear(),
            Ok(watcher::Event::InitApply(pod)) => list.push(pod),
            Ok(watcher::Event::InitDone) => {
                let mut notes = notes.lock();
                notes.listed(&list, &dialects);
                let from = notes.hears();
                if let Some(ready) = ready.take() {
                    ready.send(()).expect("the campaign waits");
                } else {
                    let to = notes.heard;
                    notes.gaps.push(Gap { from, to });
                }
            }
            Ok(watcher::Event::Apply(pod)) => {
                let mut notes = notes.lock();
                notes.hears();
                notes.shown(&pod, &dialects);
            }
            Ok(watcher::Event::Delete(pod)) => {
                let mut notes = notes.lock();
                notes.hears();
                notes.gone(&uid(&pod));
            }
            // The watch resumes; a new list counts as a gap.
            Err(_) => {}
        }
    }
}

fn uid(pod: &slim::Pod) -> PodUid {
    PodUid::new(pod.metadata.uid.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests;
