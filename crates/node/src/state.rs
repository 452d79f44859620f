//! The pods of this node and what was let onto its cards, in step with each other.
//!
//! Plain synchronous methods under one short lock: the watch calls `apply`, `delete` and `reset`, the
//! start of a container calls `admit`. No IO.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gpushare_core::ledger::Bound;
use gpushare_core::record::Record;
use gpushare_core::{Amounts, Card, Classes, PodUid};
use gpushare_kube::convert::PodFacts;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::guard::{GuardRefusal, Tally};

#[derive(Debug)]
pub struct NodeState {
    classes: Classes,
    inner: Mutex<Inner>,
    /// Told after every change; waiting for a pod is waiting for this.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Inner {
    /// A complete list has been seen: a pod that is not here is not on the node.
    listed: bool,
    pods: BTreeMap<PodUid, Arc<PodFacts>>,
    tally: Tally,
    /// Records that an earlier life of this agent let on, of pods not seen since.
    earlier: BTreeMap<PodUid, String>,
    /// Pods that were here and are not any more, until the next sweep.
    gone: BTreeSet<PodUid>,
}

impl NodeState {
    /// `earlier` are the records found in the files of an earlier life of the agent.
    pub fn new(classes: Classes, earlier: BTreeMap<PodUid, String>) -> Self {
        let inner = Inner {
            earlier,
            ..Inner::default()
        };
        Self {
            classes,
            inner: Mutex::new(inner),
            changed: watch::Sender::new(()),
        }
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    pub fn apply(&self, pod: PodFacts) {
        self.inner.lock().apply(&self.classes, pod);
        self.changed.send_replace(());
    }

    pub fn delete(&self, pod: &PodUid) {
        self.inner.lock().delete(pod);
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
        inner.earlier.clear();
        inner.listed = true;
        drop(inner);
        self.changed.send_replace(());
    }

    pub fn listed(&self) -> bool {
        self.inner.lock().listed
    }

    pub fn pod(&self, pod: &PodUid) -> Option<Arc<PodFacts>> {
        self.inner.lock().pods.get(pod).cloned()
    }

    /// The pod as soon as the watch shows it, at most after this long.
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

    /// See [`Tally::admit`].
    pub fn admit(&self, bound: &Bound, cards: &[Card]) -> Result<(), GuardRefusal> {
        self.inner.lock().tally.admit(bound, &self.classes, cards)
    }

    /// What running pods hold on a card.
    pub fn used(&self, card: &Card) -> Amounts {
        self.inner.lock().tally.used(card)
    }

    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// True when the watch does not show the pod; not before it has shown all others.
    pub fn is_missing(&self, pod: &PodUid) -> bool {
        let inner = self.inner.lock();
        inner.listed && !inner.pods.contains_key(pod)
    }

    /// The pods that were here and are not any more, since the last call.
    pub fn take_gone(&self) -> BTreeSet<PodUid> {
        std::mem::take(&mut self.inner.lock().gone)
    }

    /// Pods of [`Self::take_gone`] that must be dealt with later.
    pub fn put_back(&self, gone: BTreeSet<PodUid>) {
        self.inner.lock().gone.extend(gone);
    }

    /// Whatever the pod held, it holds no more.
    pub fn forget(&self, pod: &PodUid) {
        self.inner.lock().tally.forget(pod);
    }
}

impl Inner {
    fn apply(&mut self, classes: &Classes, pod: PodFacts) {
        if let Some(record) = self.earlier.remove(&pod.uid)
            && let Some(bound) = first_admitted(classes, &pod, &record)
        {
            self.tally.remember(&bound);
        }
        if pod.ended {
            self.tally.end(&pod.uid);
        }
        self.gone.remove(&pod.uid);
        self.pods.insert(pod.uid.clone(), Arc::new(pod));
    }

    fn delete(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
        self.tally.forget(pod);
        self.gone.insert(pod.clone());
    }
}

/// What the pod was let on with. The record now in its annotation may be another one.
fn first_admitted(classes: &Classes, pod: &PodFacts, record: &str) -> Option<Bound> {
    let ask = pod.ask.as_ref().ok()?.as_ref()?;
    let node = pod.node.as_ref()?;
    let placement = Record::decode(record)
        .and_then(|record| record.verify(&pod.uid, node, classes, ask))
        .inspect_err(|error| {
            tracing::warn!(pod = %pod.name, %error, "ignoring the record in an old CDI file");
        })
        .ok()?;
    Some(Bound {
        pod: pod.uid.clone(),
        node: node.clone(),
        ask: ask.clone(),
        placement,
    })
}

#[cfg(test)]
mod tests;
