//! Pods that we refused and that wait: what they ask for, where they may go, and when they were woken.
//!
//! kube-scheduler does not learn that a card has room again, so a pod that waits here must be woken. A pod leaves
//! when it is booked, bound, being deleted, ended or gone. The room that a woken pod will probably take is its
//! prospect: no other pod is woken for that room. Filter and bind do not look at prospects.

pub(crate) mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::placement::Charges;
use gpushare_core::{NodeName, PodUid};
use gpushare_kube::convert::PodFacts;

use crate::node_set::NodeSet;
use crate::nodes::growth::Moment;
use crate::pods::{KnownPod, Turn};

/// If more pods wait, those that would be woken last are forgotten. The scheduler still tries them from time to
/// time.
const MOST_WAITING: usize = 10_000;
/// How long the scheduler may take to try a woken pod: its own backoff is ten seconds at most by default.
const PROSPECT_LASTS: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// A pod that was not woken for this long starts again with the first pause.
const FORGIVEN_AFTER: Duration = Duration::from_mins(10);

/// A pod to which no node was offered.
#[derive(Debug)]
pub struct RefusedPod {
    pub(crate) pod: KnownPod,
    /// The nodes that the scheduler named, which have passed its own checks; one in each line.
    named: String,
    /// The logical time of what the refusal is based on.
    pub(crate) moment: Moment,
}

impl RefusedPod {
    /// `None` if the pod asks for nothing, or its request is invalid: no room can help it.
    pub fn new<'a>(
        facts: PodFacts,
        named: impl Iterator<Item = &'a str>,
        moment: Moment,
    ) -> Option<Self> {
        let pod = KnownPod::new(facts)?;
        let mut lines = String::new();
        for name in named {
            lines.push_str(name);
            lines.push('\n');
        }
        Some(Self {
            pod,
            named: lines,
            moment,
        })
    }

    pub(crate) fn named(&self) -> impl Iterator<Item = &str> {
        self.named.lines()
    }
}

#[derive(Debug, Default)]
pub struct Waiting {
    pods: HashMap<PodUid, Entry>,
    turns: BTreeSet<Turn>,
    prospects: BTreeMap<PodUid, Prospect>,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<KnownPod>,
    /// The nodes that the scheduler named last; `None` if it has not asked about the pod yet, so that any node may
    /// do.
    candidates: Option<Arc<NodeSet>>,
    /// The scheduler has tried the pod with the room that appeared until then, by itself or because the pod was
    /// woken.
    heard: Moment,
    /// Room that appeared until then has already been checked for this pod here.
    seen: Moment,
    /// Rounds in a row in which no steps were left to search for the pod.
    passed_over: u32,
    since: Instant,
    wakes: Wakes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wakes {
    /// Wakes in a row after which the pod was not booked.
    count: u32,
    last: Option<Instant>,
}

/// The room that a woken pod will probably take.
#[derive(Clone, Debug)]
struct Prospect {
    node: NodeName,
    charges: Charges,
    until: Instant,
    /// The value of `Entry::heard` before the pod was woken.
    heard: Moment,
}

impl Wakes {
    /// When the pod may be woken again.
    fn again_at(&self) -> Option<Instant> {
        let doublings = self.count.checked_sub(1)?.min(30);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings);
        Some(self.last? + pause.min(LONGEST_PAUSE))
    }

    fn pauses_at(&self, now: Instant) -> Option<Instant> {
        self.again_at().filter(|again| *again > now)
    }

    fn add(&mut self, now: Instant) {
        let long_ago = |last: Instant| now.saturating_duration_since(last) > FORGIVEN_AFTER;
        if self.last.is_some_and(long_ago) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }
}

impl Waiting {
    pub fn count(&self) -> usize {
        self.pods.len()
    }

    fn insert(&mut self, entry: Entry) {
        let turn = entry.pod.turn();
        if let Some(before) = self.pods.insert(turn.2.clone(), entry) {
            self.turns.remove(&before.pod.turn());
        }
        self.turns.insert(turn);
        while self.pods.len() > MOST_WAITING {
            let Some((_, _, last)) = self.turns.pop_last() else {
                return;
            };
            // Its prospect, if it has one, expires.
            self.pods.remove(&last);
        }
    }

    /// The pod no longer waits. Returns the node of its prospect.
    pub(crate) fn remove(&mut self, pod: &PodUid) -> Option<NodeName> {
        let entry = self.pods.remove(pod)?;
        self.turns.remove(&entry.pod.turn());
        self.prospects.remove(pod).map(|prospect| prospect.node)
    }

    /// Best first.
    fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.turns
            .iter()
            .filter_map(|(_, _, pod)| self.pods.get(pod))
    }

    /// The node is gone, and another node may get its number.
    pub(crate) fn forget_node(&mut self, number: u32) {
        for entry in self.pods.values_mut() {
            if let Some(candidates) = &mut entry.candidates
                && candidates.contains(number)
            {
                Arc::make_mut(candidates).remove(number);
            }
        }
    }

    /// The pod was refused. The moment and the candidates are those of the refusal. Returns the node of its
    /// prospect: the pod did not get the room that it was woken for, and others may try.
    pub(crate) fn refuse(
        &mut self,
        pod: KnownPod,
        candidates: NodeSet,
        moment: Moment,
        now: Instant,
    ) -> Option<NodeName> {
        let uid = &pod.pod.uid;
        let before = self.pods.get(uid);
        let (since, wakes) =
            before.map_or((now, Wakes::default()), |entry| (entry.since, entry.wakes));
        let prospect = self.prospects.remove(uid);
        self.insert(Entry {
            pod: Arc::new(pod),
            candidates: Some(Arc::new(candidates)),
            heard: moment,
            seen: moment,
            passed_over: 0,
            since,
            wakes,
        });
        prospect.map(|prospect| prospect.node)
    }

    /// Adds a pod that the scheduler has not asked about: an earlier leader may have refused it, and room may have
    /// appeared since.
    pub(crate) fn add_unasked(&mut self, pod: &Arc<KnownPod>, now: Instant) {
        if self.contains(&pod.pod.uid) {
            return;
        }
        self.insert(Entry {
            pod: pod.clone(),
            candidates: None,
            heard: 0,
            seen: 0,
            passed_over: 0,
            since: now,
            wakes: Wakes::default(),
        });
    }

    /// A waiting pod, and the nodes that the scheduler named last, if it has asked about the pod.
    pub(crate) fn get(&self, pod: &PodUid) -> Option<(&Arc<KnownPod>, Option<&Arc<NodeSet>>)> {
        let entry = self.pods.get(pod)?;
        Some((&entry.pod, entry.candidates.as_ref()))
    }

    pub fn contains(&self, pod: &PodUid) -> bool {
        self.pods.contains_key(pod)
    }

    pub(crate) fn uids(&self) -> impl Iterator<Item = &PodUid> {
        self.pods.keys()
    }

    /// Refused pods that have waited since `then` or longer and are not expected to be bound soon. Best first, each
    /// with the nodes that the scheduler named last.
    pub fn refused_since(&self, then: Instant) -> Vec<(Arc<KnownPod>, Arc<NodeSet>)> {
        let expected = |entry: &Entry| self.prospects.contains_key(&entry.pod.pod.uid);
        self.iter()
            .filter(|entry| entry.since <= then && !expected(entry))
            .filter_map(|entry| Some((entry.pod.clone(), entry.candidates.clone()?)))
            .collect()
    }

    /// The nodes that the scheduler named when it last asked about the pod.
    pub fn candidates(&self, pod: &PodUid) -> Option<Arc<NodeSet>> {
        self.get(pod)?.1.cloned()
    }
}

#[cfg(test)]
mod tests;
