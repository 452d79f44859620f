//! The watch history: every state that the API server showed, and what was booked on each card in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use futures::StreamExt;
use gpushare_core::gpu::MEMORY;
use gpushare_core::{Amounts, CardId, PodUid, names};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use parking_lot::{Mutex, MutexGuard};

use crate::follower::Follower;
use crate::setup::Setup;
use crate::wait;
use crate::world::{World, client};

/// Records every pod event from its start until it is dropped.
#[derive(Debug)]
pub struct History {
    events: Arc<Mutex<Vec<Event>>>,
    follower: Follower,
}

#[derive(Clone, Debug)]
enum Event {
    Shown(slim::Pod),
    Deleted(slim::Pod),
}

impl History {
    /// Begins to record. Pods that already exist are the first events.
    pub fn record(world: &World) -> Self {
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorded = events.clone();
        let follower = Follower::start(world.rig(), |kubeconfig, ready| async move {
            follow(&kubeconfig, &recorded, ready).await;
        });
        Self { events, follower }
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        // Without the watch, states would be missed.
        self.follower.assert_alive();
        self.events.lock()
    }

    /// Waits until the history has shown this many pods bound, so that no earlier event is missing.
    pub fn wait_for_bound(&self, pods: usize) {
        wait::until("the watch to show every bind", || {
            let events = self.events();
            let pods_bound = events.iter().map(Event::pod);
            let bound: BTreeSet<_> = pods_bound
                .filter(|pod| pod.spec.node_name.is_some())
                .filter_map(|pod| pod.metadata.uid.as_deref())
                .collect();
            if bound.len() >= pods {
                Ok(())
            } else {
                Err(format!("{} of {pods}", bound.len()))
            }
        });
    }

    /// Panics unless this many pods were bound, each once, and no card was ever booked beyond its size.
    pub fn assert_all_bound_once(&self, pods: usize, sizes: &BTreeMap<CardId, u64>) {
        self.wait_for_bound(pods);
        self.assert_bound_once(pods);
        self.assert_never_over(sizes);
    }

    /// Panics unless this many pods were bound, each to one node with one record that never changed.
    fn assert_bound_once(&self, pods: usize) {
        let mut bound = BTreeMap::new();
        for pod in self.events().iter().map(Event::pod).cloned() {
            let Some(node) = pod.spec.node_name else {
                continue;
            };
            let annotations = pod.metadata.annotations.unwrap_or_default();
            let decided = (node, annotations.get(names::ALLOCATION).cloned());
            let first = bound
                .entry(pod.metadata.uid)
                .or_insert_with(|| decided.clone());
            assert_eq!(*first, decided, "{:?} was bound twice", pod.metadata.name);
        }
        assert_eq!(bound.len(), pods);
    }

    /// The largest sum on each card at any moment. Panics if a sum exceeds the card's size.
    pub fn assert_never_over(&self, sizes: &BTreeMap<CardId, u64>) -> BTreeMap<CardId, u64> {
        let dialects = Setup::cards(&[]).hami().dialects();
        let mut held: BTreeMap<PodUid, BTreeMap<CardId, u64>> = BTreeMap::new();
        let mut highest = BTreeMap::new();
        for event in self.events().iter() {
            let facts = PodFacts::new(event.pod(), &dialects);
            held.remove(&facts.uid);
            if matches!(event, Event::Shown(_))
                && !facts.ended
                && let Some(Ok(bound)) = facts.bound(&dialects.classes)
            {
                let charges = bound.placement.charges(&bound.ask);
                let memory = charges.into_iter().map(|(card, hold)| {
                    let size = sizes.get(&card).copied().unwrap_or_default();
                    let held = hold.on(&Amounts::of(MEMORY, size)).get(MEMORY);
                    (card, held)
                });
                held.insert(facts.uid, memory.collect());
            }
            for (card, sum) in sums(&held) {
                let size = sizes.get(&card).unwrap_or_else(|| panic!("no card {card}"));
                assert!(sum <= *size, "{card}: {sum} MiB booked of {size}");
                let peak = highest.entry(card).or_insert(0);
                *peak = sum.max(*peak);
            }
        }
        assert!(!highest.is_empty(), "the history shows no booking at all");
        highest
    }
}

impl Event {
    fn pod(&self) -> &slim::Pod {
        match self {
            Self::Shown(pod) | Self::Deleted(pod) => pod,
        }
    }
}

/// Records every event. A broken watch resumes where it was. A watch that must begin with a new list has missed
/// something, so it ends the recording.
async fn follow(kubeconfig: &Path, events: &Mutex<Vec<Event>>, ready: Sender<()>) {
    let pods: Api<slim::Pod> = Api::all(client(kubeconfig).await);
    // The agent's own pod has a node from the start, and is not one of the pods that are bound.
    let of_tenants = watcher::Config::default().fields("metadata.namespace!=gpushare-system");
    let mut watch = pin!(watcher(pods, of_tenants).default_backoff());
    let mut ready = Some(ready);
    while let Some(event) = watch.next().await {
        match event {
            Ok(watcher::Event::InitApply(pod) | watcher::Event::Apply(pod)) => {
                events.lock().push(Event::Shown(pod));
            }
            Ok(watcher::Event::Delete(pod)) => events.lock().push(Event::Deleted(pod)),
            Ok(watcher::Event::InitDone) => {
                if let Some(ready) = ready.take() {
                    ready.send(()).expect("the test waits");
                }
            }
            Ok(watcher::Event::Init) if ready.is_some() => {}
            Ok(watcher::Event::Init) => return,
            Err(error) => eprintln!("the history's watch is taken up again: {error}"),
        }
    }
}

fn sums(held: &BTreeMap<PodUid, BTreeMap<CardId, u64>>) -> BTreeMap<CardId, u64> {
    let mut sums = BTreeMap::new();
    for (card, memory) in held.values().flatten() {
        *sums.entry(card.clone()).or_insert(0) += memory;
    }
    sums
}
