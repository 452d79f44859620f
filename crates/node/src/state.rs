//! The pods of this node and which of them were admitted to its cards, in sync with each other.
//!
//! A card is free when the processes of its pod have ended. The deletion of the pod's object, or a final phase, is only
//! a reason to look for them ([`crate::ends`]).
//!
//! Plain synchronous methods under one short lock: the watch calls `apply`, `delete` and `reset`, the
//! start of a container calls `admit`. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpushare_core::ledger::BoundPod;
use gpushare_core::placement::Charges;
use gpushare_core::record::{Record, RecordError};
use gpushare_core::{Amounts, Card, Classes, HeldPod, PodUid, gpu};
use gpushare_kube::convert::PodFacts;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::cdi::directory::EarlierAdmission;
use crate::guard::{GuardRefusal, LeavingPods, Tally};

#[derive(Debug)]
pub struct NodeState {
    classes: Classes,
    inner: Mutex<Inner>,
    /// Notified after every change; waiting for a pod means waiting for this.
    changed: watch::Sender<()>,
    /// What containers still hold after their pods are gone or ended; `None` until that is first known.
    held: watch::Sender<Option<Vec<HeldPod>>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// A complete list has been received: a pod that is not in `pods` is not on the node.
    listed: bool,
    pods: BTreeMap<PodUid, Arc<PodFacts>>,
    tally: Tally,
    /// Records of pods that an earlier run of this agent admitted and that were not seen since.
    earlier: BTreeMap<PodUid, EarlierAdmission>,
    /// Pods that are no longer here, until the next sweep.
    gone: BTreeSet<PodUid>,
}

impl NodeState {
    /// `earlier` are the records found in the files of an earlier run of the agent.
    pub fn new(classes: Classes, earlier: BTreeMap<PodUid, EarlierAdmission>) -> Self {
        let inner = Inner {
            earlier,
            ..Inner::default()
        };
        Self {
            classes,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
            held: watch::Sender::new(None),
        }
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    pub fn apply(&self, pod: PodFacts) {
        let mut inner = self.inner.lock();
        inner.apply(&self.classes, pod);
        self.tell(&inner);
    }

    pub fn delete(&self, pod: &PodUid) {
        let mut inner = self.inner.lock();
        inner.delete(pod);
        self.tell(&inner);
    }

    /// Notifies all who wait for a change; called under the lock, so in the order of changes.
    fn tell(&self, inner: &Inner) {
        let held = inner.tally.held().filter(|_| inner.listed);
        if held.is_some() {
            self.held
                .send_if_modified(|before| std::mem::replace(before, held.clone()) != held);
        }
        self.changed.send_replace(());
    }

    /// Takes over a complete list.
    pub fn reset(&self, pods: Vec<PodFacts>) {
        let mut inner = self.inner.lock();
        let listed: BTreeSet<PodUid> = pods.iter().map(|pod| pod.uid.clone()).collect();
        let vanished: Vec<PodUid> = inner
            .pods
            .keys()
            .filter(|pod| !listed.contains(*pod))
            .cloned()
            .collect();
        for pod in &vanished {
            inner.delete(pod);
        }
        for pod in pods {
            inner.apply(&self.classes, pod);
        }
        for (pod, earlier) in std::mem::take(&mut inner.earlier) {
            inner.remember_gone(&self.classes, &pod, &earlier);
        }
        inner.listed = true;
        self.tell(&inner);
    }

    pub fn listed(&self) -> bool {
        self.inner.lock().listed
    }

    pub fn pod(&self, pod: &PodUid) -> Option<Arc<PodFacts>> {
        self.inner.lock().pods.get(pod).cloned()
    }

    /// The pod as soon as the watch shows it; `None` if that takes longer than `patience`.
    pub async fn wait_for(&self, pod: &PodUid, patience: Duration) -> Option<Arc<PodFacts>> {
        let mut changed = self.changed.subscribe();
        let seen = async {
            loop {
                if let Some(facts) = self.pod(pod)
                    && self.listed()
                {
                    return Some(facts);
                }
                changed.changed().await.ok()?;
            }
        };
        timeout(patience, seen).await.ok().flatten()
    }

    /// See [`Tally::admit`]. `name` is the pod's `namespace/name`.
    ///
    /// The watch may not show the pod: because the watch is behind and the pod was looked up, or because the pod was
    /// deleted while its start was held back. No event of the watch would end such a pod, so its processes are looked
    /// for from now on. Its sandbox is one of them until the container has started. A runtime starts no container in a
    /// sandbox that has ended, so a pod without processes has no start under way either.
    pub fn admit(&self, name: &str, bound: &BoundPod, cards: &[Card]) -> Result<(), GuardRefusal> {
        let mut inner = self.inner.lock();
        inner.tally.admit(bound, &self.classes, cards)?;
        let shown = inner.pods.get(&bound.pod);
        if shown.is_none_or(|pod| pod.ended) {
            inner.tally.leave(&bound.pod, name);
            self.tell(&inner);
        }
        Ok(())
    }

    /// What pods hold on a card.
    pub fn used(&self, card: &Card) -> Amounts {
        self.inner.lock().tally.used(card)
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Whether the watch does not show the pod and it no longer holds anything; false until the watch has received a
    /// complete list.
    pub fn is_missing(&self, pod: &PodUid) -> bool {
        let inner = self.inner.lock();
        inner.listed && !inner.pods.contains_key(pod) && !inner.tally.holds(pod)
    }

    /// The pods that are gone or ended according to the API server, and whose processes have not been seen to end.
    pub fn leaving(&self) -> LeavingPods {
        self.inner.lock().tally.leaving()
    }

    /// Records a check for the processes of these pods: those in `alive` have some, the others have none.
    pub fn note_processes(&self, leaving: &LeavingPods, alive: &BTreeSet<PodUid>) {
        let mut inner = self.inner.lock();
        let before = (inner.tally.leaving(), inner.tally.held());
        for (pod, last_start) in leaving {
            // The API server shows it again, or a start was admitted after this check began.
            if before.0.get(pod) != Some(last_start) {
                continue;
            }
            if alive.contains(pod) {
                inner.tally.note_alive(pod);
            } else if inner.pods.contains_key(pod) {
                inner.tally.end(pod);
            } else {
                inner.tally.forget(pod);
            }
        }
        if before != (inner.tally.leaving(), inner.tally.held()) {
            self.tell(&inner);
        }
    }

    /// What containers still hold after their pods are gone or ended; `None` until that is first known.
    pub fn held(&self) -> watch::Receiver<Option<Vec<HeldPod>>> {
        self.held.subscribe()
    }

    /// The pods that have gone since the last call.
    pub fn take_gone(&self) -> BTreeSet<PodUid> {
        std::mem::take(&mut self.inner.lock().gone)
    }

    /// Puts back pods of [`Self::take_gone`] that must be dealt with later.
    pub fn put_back(&self, gone: BTreeSet<PodUid>) {
        self.inner.lock().gone.extend(gone);
    }
}

impl Inner {
    fn apply(&mut self, classes: &Classes, pod: PodFacts) {
        if let Some(earlier) = self.earlier.remove(&pod.uid)
            && let Some(bound) = first_admitted(classes, &pod, &earlier.record)
        {
            self.tally.remember(&bound);
        }
        if pod.ended {
            self.tally.leave(&pod.uid, &full_name(&pod));
        } else {
            self.tally.stay(&pod.uid);
        }
        self.gone.remove(&pod.uid);
        self.pods.insert(pod.uid.clone(), Arc::new(pod));
    }

    fn delete(&mut self, pod: &PodUid) {
        if let Some(facts) = self.pods.remove(pod) {
            self.tally.leave(pod, &full_name(&facts));
        }
        if !self.tally.holds(pod) {
            self.tally.forget(pod);
        }
        self.gone.insert(pod.clone());
    }

    /// Counts what an earlier run of the agent admitted for a pod that is gone; it is not yet known whether its
    /// containers run.
    fn remember_gone(&mut self, classes: &Classes, pod: &PodUid, earlier: &EarlierAdmission) {
        match charges(classes, &earlier.record) {
            Ok(charges) => self.tally.remember_gone(pod, &earlier.name, charges),
            Err(error) => {
                tracing::warn!(%pod, pod_name = earlier.name, %error, "ignoring the record in an old CDI file");
            }
        }
        self.gone.insert(pod.clone());
    }
}

/// `namespace/name`, for people.
pub(crate) fn full_name(pod: &PodFacts) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// The most that a record can hold on the cards that this agent serves. Without the pod it is unknown which containers
/// run one after the other.
fn charges(classes: &Classes, record: &str) -> Result<Charges, RecordError> {
    Ok(Record::decode(record)?.most(classes, gpu::CLASS))
}

/// What the pod was admitted with. The record that is now in its annotation may differ.
fn first_admitted(classes: &Classes, pod: &PodFacts, record: &str) -> Option<BoundPod> {
    let ask = pod.ask.as_ref().ok()?.as_ref()?;
    let node = pod.node.as_ref()?;
    let placement = Record::decode(record)
        .and_then(|record| record.verify(&pod.uid, node, classes, ask))
        .inspect_err(|error| {
            tracing::warn!(pod = %pod.name, %error, "ignoring the record in an old CDI file");
        })
        .ok()?;
    Some(BoundPod {
        pod: pod.uid.clone(),
        node: node.clone(),
        ask: ask.clone(),
        placement,
    })
}

#[cfg(test)]
mod tests;
