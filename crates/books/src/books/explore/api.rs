//! The API server of the model: the truth about pods, and its history.

mod held;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::PoisonError;

use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::{PodUid, names};
use gpushare_kube::bind::{Answer, Bind};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use shuttle::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};

use super::instance::{Instance, chance};

/// Every node has one card of this size.
pub(super) const CARD_GIB: u64 = 8;

/// A pod as one answer or event shows it.
#[derive(Clone)]
pub(super) struct PodSnapshot {
    pub(super) facts: PodFacts,
    pub(super) deleting: bool,
    /// Its tenant has annotated it with a choice that makes no sense.
    pub(super) senseless: bool,
}

impl fmt::Debug for PodSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            facts,
            deleting,
            senseless,
        } = self;
        let (uid, node, ended) = (&facts.uid, &facts.node, facts.ended);
        write!(
            f,
            "{uid} on {node:?}, ended {ended}, deleting {deleting}, senseless {senseless}"
        )
    }
}

/// What the watch of an extender receives next.
pub(super) enum Next {
    Event(Box<Event>),
    /// The extender begins to lead.
    Term(u64),
    Over,
}

#[derive(Clone, Debug)]
pub(super) enum Event {
    Apply(PodSnapshot),
    Delete(PodSnapshot),
}

#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    /// Changes with every change of the pod.
    version: usize,
    gib: u64,
    node: Option<String>,
    record: Option<String>,
    phase: &'static str,
    deleting: bool,
    senseless: bool,
}

pub(super) struct Api {
    truth: Mutex<Truth>,
    changed: Condvar,
    pub(super) story: Story,
    /// The extenders whose books are compared with the truth.
    pub(super) extenders: Arc<Mutex<Vec<Weak<Instance>>>>,
}

/// What happened, for people. Its lock is not one of shuttle's, so writing to it does not add orders to explore.
#[derive(Clone, Default)]
pub(super) struct Story(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl Story {
    fn events(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, what: String) {
        self.events().push(what);
    }

    pub(super) fn text(&self) -> String {
        self.events().join("\n")
    }

    /// Fails the test: something happened that must not happen.
    pub(super) fn broken(&self, what: &str) -> ! {
        panic!("BROKEN: {what}\n{}", self.text())
    }
}

/// Locks even if another thread has failed, so that its failure is not hidden by further ones.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn wait<'a, T>(change: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    change.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Truth {
    story: Story,
    dialects: Dialects,
    /// How often something has changed.
    changes: usize,
    pods: BTreeMap<String, Pod>,
    history: Vec<Event>,
    /// Containers that run although their pods are gone, with their nodes and what they hold.
    outlived: BTreeMap<PodUid, (String, u64)>,
    /// The outlived containers that agents have reported to each extender, until the agents report that they have
    /// ended.
    told: BTreeSet<(usize, PodUid)>,
    /// Which extender may act, and its term.
    leader: Option<(usize, u64)>,
    /// In which term each extender has opened binds.
    open: BTreeMap<usize, u64>,
    /// Whether the history has ended.
    over: bool,
}

impl Api {
    pub(super) fn new() -> Self {
        let story = Story::default();
        let truth = Truth {
            story: story.clone(),
            dialects: gpu::dialects(AliyunUnit::GiB),
            changes: 0,
            pods: BTreeMap::new(),
            history: Vec::new(),
            outlived: BTreeMap::new(),
            told: BTreeSet::new(),
            leader: None,
            open: BTreeMap::new(),
            over: false,
        };
        Self {
            truth: Mutex::new(truth),
            changed: Condvar::new(),
            story,
            extenders: Arc::default(),
        }
    }

    pub(super) fn truth(&self) -> MutexGuard<'_, Truth> {
        lock(&self.truth)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Truth) -> T) -> T {
        let changed = change(&mut self.truth());
        self.changed.notify_all();
        changed
    }

    pub(super) fn create(&self, name: &str, uid: &str, gib: u64) {
        self.change(|truth| {
            let pod = Pod {
                uid: uid.to_owned(),
                version: 0,
                gib,
                node: None,
                record: None,
                phase: "Pending",
                deleting: false,
                senseless: false,
            };
            truth.pods.insert(name.to_owned(), pod);
            truth.record(name);
        });
    }

    /// The containers of a bound pod run, or end.
    pub(super) fn set_phase(&self, name: &str, phase: &'static str) {
        self.change(|truth| {
            if let Some(pod) = truth.pods.get_mut(name).filter(|pod| pod.node.is_some()) {
                pod.phase = phase;
                truth.record(name);
            }
        });
    }

    /// The tenant annotates the pod with a choice that makes no sense, or removes the annotation.
    pub(super) fn annotate(&self, name: &str, senseless: bool) {
        self.change(|truth| {
            if let Some(pod) = truth.pods.get_mut(name) {
                pod.senseless = senseless;
                truth.record(name);
            }
        });
    }

    /// Deletion begins: the containers of the pod still run.
    pub(super) fn begin_deletion(&self, name: &str) {
        self.change(|truth| {
            if let Some(pod) = truth.pods.get_mut(name) {
                pod.deleting = true;
                truth.record(name);
            }
        });
    }

    /// The pod is gone.
    pub(super) fn delete(&self, name: &str) {
        self.change(|truth| {
            if let Some(last) = truth.see(name) {
                truth.pods.remove(name);
                truth.story.tell(format!("api: {} is gone", last.facts.uid));
                truth.history.push(Event::Delete(last));
            }
        });
    }

    /// Whether the extender may send a bind in this term.
    pub(super) fn goes_on(&self, extender: usize, term: u64) -> bool {
        self.truth().term_of(extender) == Some(term)
    }

    /// A bind arrives, at whatever time.
    pub(super) fn bind(&self, bind: &Bind) -> Result<(), Answer> {
        self.change(|truth| {
            let Some(pod) = truth.pods.get_mut(&bind.pod.name) else {
                return Err(Answer::Conflict("not found".to_owned()));
            };
            let stale = !bind.version.is_empty() && bind.version != pod.version.to_string();
            if stale || pod.uid != bind.pod.uid.as_str() || pod.node.is_some() || pod.deleting {
                return Err(Answer::Conflict("conflict".to_owned()));
            }
            pod.node = Some(bind.node.to_string());
            pod.record = bind.annotations.get(names::ALLOCATION).cloned();
            truth.record(&bind.pod.name);
            truth.check_cards();
            Ok(())
        })
    }

    /// A write on the pod that changes nothing but its version.
    pub(super) fn fence(&self, name: &str, uid: &PodUid) -> Option<PodSnapshot> {
        self.change(|truth| {
            truth.pods.get(name).filter(|pod| pod.uid == uid.as_str())?;
            truth.record(name);
            truth.see(name)
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<PodSnapshot> {
        self.truth().see(name)
    }

    /// All pods, and the place in the history from which a watch continues.
    pub(super) fn list(&self) -> (Vec<PodSnapshot>, usize) {
        let truth = self.truth();
        let pods = truth.pods.keys().filter_map(|name| truth.see(name));
        (pods.collect(), truth.history.len())
    }

    /// Waits for what the watch of an extender receives next.
    pub(super) fn next(&self, extender: usize, at: usize, listed: u64) -> Next {
        let mut truth = self.truth();
        loop {
            let term = truth.term_of(extender).filter(|term| *term > listed);
            let event = truth.history.get(at).cloned().map(Box::new);
            match (term, event) {
                (Some(_), Some(event)) if chance(3) => return Next::Event(event),
                (Some(term), _) => return Next::Term(term),
                (None, Some(event)) => return Next::Event(event),
                (None, None) if truth.over => return Next::Over,
                (None, None) => truth = wait(&self.changed, truth),
            }
        }
    }

    /// No extender leads from now on.
    pub(super) fn end_term(&self) {
        self.change(|truth| truth.leader = None);
        self.story.tell("nobody leads".to_owned());
    }

    /// Waits until an extender leads, and returns it.
    pub(super) fn some_leader(&self) -> usize {
        let mut truth = self.truth();
        loop {
            match truth.leader {
                Some((extender, _)) => return extender,
                None => truth = wait(&self.changed, truth),
            }
        }
    }

    pub(super) fn begin_term(&self, extender: usize, term: u64) {
        self.change(|truth| truth.leader = Some((extender, term)));
        self.story.tell(format!("extender {extender} leads"));
    }

    /// As `Extender::open_binds`: an earlier term that opens late does not close the present one.
    pub(super) fn open_binds(&self, extender: usize, term: u64) {
        self.change(|truth| {
            let open = truth.open.entry(extender).or_insert(term);
            *open = (*open).max(term);
        });
        self.story.tell(format!("extender {extender} opens binds"));
    }

    /// Waits until binds are open in the extender's term, and returns the term; `None` if the extender does not
    /// lead.
    pub(super) fn open_term(&self, extender: usize) -> Option<u64> {
        let mut truth = self.truth();
        let term = truth.term_of(extender)?;
        while truth.open.get(&extender) != Some(&term) {
            if truth.term_of(extender) != Some(term) || truth.over {
                return None;
            }
            truth = wait(&self.changed, truth);
        }
        Some(term)
    }

    pub(super) fn is_over(&self) -> bool {
        self.truth().over
    }

    pub(super) fn end_of_history(&self) {
        self.change(|truth| truth.over = true);
    }
}

impl Truth {
    pub(super) fn term_of(&self, extender: usize) -> Option<u64> {
        let (leader, term) = self.leader?;
        (leader == extender).then_some(term)
    }

    /// Whether the extender leads and has opened binds.
    pub(super) fn may_bind(&self, extender: usize) -> bool {
        let term = self.term_of(extender);
        term.is_some_and(|term| self.open.get(&extender) == Some(&term))
    }

    /// The pods whose containers hold their card: bound, and not ended.
    pub(super) fn holders(&self) -> impl Iterator<Item = (PodUid, &str, u64)> {
        self.pods.values().filter_map(|pod| {
            let node = pod.node.as_deref()?;
            (pod.phase != "Succeeded").then(|| (PodUid::new(&pod.uid), node, pod.gib))
        })
    }

    pub(super) fn is_waiting(&self, uid: &str) -> bool {
        let mut pods = self.pods.values();
        pods.any(|pod| pod.uid == uid && pod.node.is_none() && !pod.deleting)
    }

    fn check_cards(&self) {
        let mut held: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, node, gib) in self.holders() {
            *held.entry(node).or_default() += gib;
        }
        for (node, gib) in held {
            if gib > CARD_GIB {
                let what = format!("{gib} of {CARD_GIB} GiB are given away on {node}");
                self.story.broken(&what);
            }
        }
    }

    fn record(&mut self, name: &str) {
        self.changes += 1;
        if let Some(pod) = self.pods.get_mut(name) {
            pod.version = self.changes;
        }
        let seen = self.see(name);
        if let Some(pod) = self.pods.get(name) {
            let (node, phase) = (pod.node.as_deref().unwrap_or("no node"), pod.phase);
            let deleting = if pod.deleting { ", being deleted" } else { "" };
            let senseless = if pod.senseless { ", senseless" } else { "" };
            let uid = &pod.uid;
            self.story.tell(format!(
                "api: {uid} on {node}, {phase}{deleting}{senseless}"
            ));
        }
        self.history.extend(seen.map(Event::Apply));
    }

    fn see(&self, name: &str) -> Option<PodSnapshot> {
        let pod = self.pods.get(name)?;
        let mut slim = slim::Pod::default();
        slim.metadata.name = Some(name.to_owned());
        slim.metadata.namespace = Some("team".to_owned());
        slim.metadata.uid = Some(pod.uid.clone());
        slim.metadata.resource_version = Some(pod.version.to_string());
        let record = pod.record.clone();
        let record = record.map(|record| (names::ALLOCATION.to_owned(), record));
        let choice = (names::POLICY.to_owned(), "no policy".to_owned());
        let choice = pod.senseless.then_some(choice);
        slim.metadata.annotations = Some(record.into_iter().chain(choice).collect());
        slim.spec.node_name.clone_from(&pod.node);
        slim.status.phase = Some(pod.phase.to_owned());
        let mut container = slim::Container {
            name: "main".to_owned(),
            ..slim::Container::default()
        };
        let limit = slim::QuantityText(pod.gib.to_string());
        let resource = names::ALIYUN_GPU_MEM.to_owned();
        container.resources.limits.insert(resource, limit);
        slim.spec.containers.push(container);
        Some(PodSnapshot {
            facts: PodFacts::new(&slim, &self.dialects),
            deleting: pod.deleting,
            senseless: pod.senseless,
        })
    }
}
