//! Pods that we refused and that wait: what they ask for, where they may go, and when they were woken.
//!
//! kube-scheduler does not learn that a card has room again, so whoever waits here must be woken. A pod
//! leaves when it is booked, bound, being deleted, ended or gone. What a woken pod will probably take is
//! its prospect: others are not woken for that. Filter and bind do not look at prospects.

pub(super) mod plan;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::placement::Charges;
use gpushare_core::preempt::Rank;
use gpushare_core::{NodeName, PodAsk, PodUid};
use gpushare_kube::convert::PodFacts;

use super::growth::Moment;
use super::node_set::NodeSet;
use super::{Books, KnownPod};
use gpushare_kube::PodRef;

/// Past this many, those that would be woken last are forgotten; the scheduler still tries them now and then.
const MOST_WAITING: usize = 10_000;
/// How long the scheduler may take to try a woken pod: its own backoff is ten seconds at most by default.
const PROSPECT_LASTS: Duration = Duration::from_secs(15);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// Who was not woken for this long begins anew with the first pause.
const FORGIVEN_AFTER: Duration = Duration::from_mins(10);

/// A pod that waits for room.
#[derive(Debug)]
pub struct WaitingPod {
    pub pod: PodRef,
    pub ask: PodAsk,
    pub rank: Rank,
    /// In seconds since 1970.
    pub created: i64,
    /// Others may have to go for it.
    pub preempts: bool,
}

/// No node was offered to this pod.
#[derive(Debug)]
pub struct RefusedPod {
    pub pod: WaitingPod,
    /// The nodes that the scheduler named, which have passed its own checks; one in each line.
    pub named: String,
    /// When that was decided.
    pub moment: Moment,
}

impl RefusedPod {
    /// Nothing if the pod asks for nothing or for something invalid: no room can help it.
    pub fn new<'a>(
        facts: PodFacts,
        named: impl Iterator<Item = &'a str>,
        moment: Moment,
    ) -> Option<Self> {
        let ask = facts.ask.ok()??;
        let mut lines = String::new();
        for name in named {
            lines.push_str(name);
            lines.push('\n');
        }
        Some(Self {
            pod: WaitingPod {
                pod: PodRef {
                    uid: facts.uid,
                    namespace: facts.namespace,
                    name: facts.name,
                },
                ask,
                rank: facts.rank,
                created: facts.created,
                preempts: facts.preemption.preempts,
            },
            named: lines,
            moment,
        })
    }
}

/// Best first: the highest rank, then the oldest.
type Turn = (Reverse<Rank>, i64, PodUid);

#[derive(Debug, Default)]
pub(super) struct Waiting {
    pods: HashMap<PodUid, Entry>,
    turns: BTreeSet<Turn>,
    prospects: BTreeMap<PodUid, Prospect>,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<WaitingPod>,
    /// The nodes that the scheduler named last; nothing if it was never heard: any may do.
    candidates: Option<Arc<NodeSet>>,
    /// Of room that appeared until then the scheduler has had its chance: it asked, or was made to.
    heard: Moment,
    /// What appeared until then has been looked at here.
    seen: Moment,
    /// Rounds in a row that had no steps left to search for it.
    passed_over: u32,
    since: Instant,
    wakes: Wakes,
}

#[derive(Clone, Copy, Debug, Default)]
struct Wakes {
    /// In a row, without being booked.
    count: u32,
    last: Option<Instant>,
}

/// What a woken pod will probably take.
#[derive(Clone, Debug)]
struct Prospect {
    node: NodeName,
    charges: Charges,
    until: Instant,
    /// As it was before the pod was woken.
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

impl WaitingPod {
    pub(super) fn turn(&self) -> Turn {
        (Reverse(self.rank), self.created, self.pod.uid.clone())
    }
}

impl Waiting {
    pub(super) fn len(&self) -> usize {
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
            // Its prospect, if it has one, ends with time.
            self.pods.remove(&last);
        }
    }

    /// The pod does not wait any more. Returns where it had a prospect.
    pub(super) fn remove(&mut self, pod: &PodUid) -> Option<NodeName> {
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

    /// The node is gone, and its number may become another's.
    pub(super) fn forget_node(&mut self, number: u32) {
        for entry in self.pods.values_mut() {
            if let Some(candidates) = &mut entry.candidates
                && candidates.contains(number)
            {
                Arc::make_mut(candidates).remove(number);
            }
        }
    }
}

impl Books {
    /// When what is known now was known, for [`RefusedPod`].
    pub fn moment(&self) -> Moment {
        self.growth.now()
    }

    /// The numbers of the nodes named in a refusal; unknown ones have none.
    pub fn numbered(&self, refused: &RefusedPod) -> NodeSet {
        let numbers = refused.named.lines();
        numbers
            .filter_map(|name| self.growth.number(name))
            .collect()
    }

    /// Notes that the pod waits, with the nodes from [`Self::numbered`].
    pub fn refused(&mut self, refused: RefusedPod, candidates: NodeSet, now: Instant) {
        let RefusedPod { pod, moment, .. } = refused;
        let uid = &pod.pod.uid;
        let placed = |pod: &KnownPod| !pod.wants_node();
        if self.ledger.booking(uid.as_str()).is_some() || self.pods.get(uid).is_some_and(placed) {
            return;
        }
        let before = self.waiting.pods.get(uid);
        let (since, wakes) =
            before.map_or((now, Wakes::default()), |entry| (entry.since, entry.wakes));
        // Whatever it was woken for, it did not get it: others may try.
        if let Some(prospect) = self.waiting.prospects.remove(uid) {
            self.growth.left(prospect.node.as_str());
        }
        self.contend(&pod);
        self.waiting.insert(Entry {
            pod: Arc::new(pod),
            candidates: Some(Arc::new(candidates)),
            heard: moment,
            seen: moment,
            passed_over: 0,
            since,
            wakes,
        });
        self.growth.ring_since(moment);
    }

    /// Lets every pending pod wait that the scheduler has not asked about: a predecessor may have refused
    /// it, and room may have appeared since.
    pub fn await_all_pending(&mut self, now: Instant) {
        let Self {
            ledger,
            pods,
            waiting,
            growth,
            ..
        } = self;
        for (uid, known) in pods.iter() {
            let booked = ledger.booking(uid.as_str()).is_some();
            if booked || !known.wants_node() || waiting.pods.contains_key(uid) {
                continue;
            }
            waiting.insert(Entry {
                pod: Arc::new(known.waiting(uid)),
                candidates: None,
                heard: 0,
                seen: 0,
                passed_over: 0,
                since: now,
                wakes: Wakes::default(),
            });
        }
        growth.ring_since(0);
    }

    /// A pod that waits, and the nodes that the scheduler named last, if it was heard at all.
    pub(super) fn waiting_pod(&self, pod: &PodUid) -> Option<(&Arc<WaitingPod>, Option<&NodeSet>)> {
        let entry = self.waiting.pods.get(pod)?;
        Some((&entry.pod, entry.candidates.as_deref()))
    }

    pub fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    pub fn is_waiting(&self, pod: &PodUid) -> bool {
        self.waiting.pods.contains_key(pod)
    }

    /// Pods that have been refused since then and are not expected to be bound soon, best first, each
    /// with the nodes that the scheduler named last.
    pub fn refused_since(&self, then: Instant) -> Vec<(Arc<WaitingPod>, Arc<NodeSet>)> {
        let Waiting { prospects, .. } = &self.waiting;
        let long = self
            .waiting
            .iter()
            .filter(|entry| entry.since <= then && !prospects.contains_key(&entry.pod.pod.uid));
        long.filter_map(|entry| Some((entry.pod.clone(), entry.candidates.clone()?)))
            .collect()
    }

    /// The nodes that the scheduler named when it last asked about the pod.
    pub fn candidates(&self, pod: &PodUid) -> Option<Arc<NodeSet>> {
        self.waiting.pods.get(pod)?.candidates.clone()
    }

    /// Every node that we know and the set holds; without a set, all of them.
    pub fn nodes_in(&self, set: Option<&NodeSet>) -> Vec<NodeName> {
        let inside = |node: &&NodeName| {
            let number = self.growth.number(node.as_str());
            set.is_none_or(|set| number.is_some_and(|number| set.contains(number)))
        };
        self.nodes.iter().filter(inside).cloned().collect()
    }

    /// The pod does not wait any more; what it was woken for is for others.
    pub fn stop_waiting(&mut self, pod: &PodUid) {
        self.contenders.remove(pod);
        if let Some(node) = self.waiting.remove(pod) {
            self.growth.left(node.as_str());
        }
    }

    /// After a list: only pending pods wait. One that is not listed and was not `known` before may be
    /// newer than the list.
    pub(super) fn stop_waiting_unless_pending(&mut self, known: impl Fn(&PodUid) -> bool) {
        let pending = |pod: &PodUid| {
            let listed = self.pods.get(pod);
            listed.map_or_else(|| !known(pod), KnownPod::wants_node)
                && self.ledger.booking(pod.as_str()).is_none()
        };
        let waiting = self.waiting.pods.keys();
        let over: Vec<PodUid> = waiting.filter(|pod| !pending(pod)).cloned().collect();
        for pod in over {
            self.stop_waiting(&pod);
        }
    }

    /// The pod was booked on the node, where its prospect becomes the booking.
    pub(super) fn stop_waiting_booked(&mut self, pod: &PodUid, node: &NodeName) {
        self.contenders.remove(pod);
        if let Some(elsewhere) = self.waiting.remove(pod).filter(|prospect| prospect != node) {
            self.growth.left(elsewhere.as_str());
        }
    }
}

#[cfg(test)]
mod tests;
