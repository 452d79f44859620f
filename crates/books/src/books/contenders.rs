//! Contenders: pods without a node that outrank a pod with one, and for which victims are looked for next.
//!
//! Most of them were refused by us. Where a node's totals do not suffice, kube-scheduler refuses by itself and
//! asks us only if it finds victims by priority. A pod over budget may have any priority, so while such a pod is
//! on a node, every pending pod contends, even if the scheduler has not asked about it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::ledger::NodeView;
use gpushare_core::preempt::Rank;
use gpushare_core::{NodeName, PodUid, Steps};

use super::{Books, KnownPod, Now, WaitingPod};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// For a pod whose victims are protected: PodDisruptionBudgets change slowly.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How long the scheduler may take with a new pod before we look for victims unasked.
const SCHEDULER_FIRST_MILLIS: i64 = 2_000;
/// For a pod without possible victims: looking at all nodes after each of its refusals would be too much.
const LONGEST_REST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Contenders {
    pods: HashMap<PodUid, Contender>,
    /// How many pods with a node have each rank.
    ranks: BTreeMap<Rank, usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Contender {
    /// It was refused since victims were last looked for, or they are to be looked for again in any case.
    asks: bool,
    failures: u32,
    not_before: Option<Instant>,
}

impl Contender {
    fn failed(&mut self, now: Instant, longest: Duration) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + pause.min(longest));
    }
}

/// A pod for which to look for victims.
#[derive(Clone, Debug)]
pub struct Contention {
    pub pod: Arc<WaitingPod>,
    /// The nodes that the scheduler named last, sorted by name; empty if it has not asked.
    pub nodes: Vec<NodeName>,
}

impl Contenders {
    pub(super) fn remove(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
    }

    fn count(&mut self, pod: &KnownPod) {
        if pod.node.is_some() {
            *self.ranks.entry(pod.rank).or_default() += 1;
        }
    }

    fn discount(&mut self, pod: &KnownPod) {
        if pod.node.is_some()
            && let Some(count) = self.ranks.get_mut(&pod.rank)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.ranks.remove(&pod.rank);
            }
        }
    }
}

impl Books {
    /// Keeps the pod, and counts its rank.
    pub(super) fn keep(&mut self, uid: &PodUid, pod: KnownPod) {
        let (rank, placed) = (pod.rank, pod.node.is_some());
        self.contenders.count(&pod);
        let before = self.pods.insert(uid.clone(), pod);
        if let Some(before) = &before {
            self.contenders.discount(before);
        }
        if !placed {
            self.contend_unasked(uid);
        } else if before.is_some_and(|before| rank < before.rank) {
            self.contend_all();
        }
    }

    /// Removes the pod.
    pub(super) fn drop_pod(&mut self, pod: &PodUid) -> Option<KnownPod> {
        let known = self.pods.remove(pod)?;
        self.contenders.discount(&known);
        self.lessons.remember(pod);
        Some(known)
    }

    /// Keeps these pods and no others.
    pub(super) fn keep_only(
        &mut self,
        pods: HashMap<PodUid, KnownPod>,
    ) -> HashMap<PodUid, KnownPod> {
        self.contenders.ranks.clear();
        for pod in pods.values() {
            self.contenders.count(pod);
        }
        let before = std::mem::replace(&mut self.pods, pods);
        self.contend_all();
        before
    }

    /// The lowest rank of a pod with a node.
    fn lowest(&self) -> Option<Rank> {
        self.contenders.ranks.keys().next().copied()
    }

    /// Lets a refused pod contend if a pod with a node has a lower rank.
    pub(super) fn contend(&mut self, pod: &WaitingPod) {
        let uid = &pod.pod.uid;
        if pod.preempts
            && self.lowest().is_some_and(|lowest| lowest < pod.rank)
            && self.preemption(uid).is_none()
        {
            self.contenders.pods.entry(uid.clone()).or_default().asks = true;
            self.preempt_bell.notify_one();
        }
    }

    /// Lets a pending pod contend before the scheduler asks about it, if a pod over budget has a node.
    fn contend_unasked(&mut self, pod: &PodUid) {
        if self.contends_unasked(pod) && self.preemption(pod).is_none() {
            self.contenders.pods.entry(pod.clone()).or_default().asks = true;
            self.preempt_bell.notify_one();
        }
    }

    fn contends_unasked(&self, pod: &PodUid) -> bool {
        let known = self.pods.get(pod).filter(|known| known.wants_node());
        known.is_some_and(|known| known.preemption.preempts && !known.rank.is_over_budget())
            && self.lowest().is_some_and(Rank::is_over_budget)
            && self.ledger.booking(pod.as_str()).is_none()
    }

    /// Lets every pending pod contend if a pod over budget has a node. Called when ranks may have dropped.
    fn contend_all(&mut self) {
        if !self.lowest().is_some_and(Rank::is_over_budget) {
            return;
        }
        let pending = self.pods.iter().filter(|(_, pod)| pod.wants_node());
        let pending: Vec<PodUid> = pending.map(|(uid, _)| uid.clone()).collect();
        for pod in pending {
            self.contend_unasked(&pod);
        }
    }

    /// The nodes on which a pod over budget holds a card and this pod finds no room.
    pub fn nodes_to_win_back(&self, pod: &PodUid) -> Vec<NodeName> {
        let held = |node: &&NodeName| {
            let view = self.ledger.node(node.as_str());
            let mut holders = view.into_iter().flat_map(NodeView::bookings);
            holders.any(|(holder, _)| {
                let known = self.pods.get(holder);
                known.is_some_and(|known| known.rank.is_over_budget())
            })
        };
        let (nodes, steps) = (self.nodes.iter().filter(held), Steps::for_request());
        nodes
            .filter(|node| !self.fits_within(pod, node, &steps))
            .cloned()
            .collect()
    }

    /// The pod has lost what was claimed for it.
    pub fn contend_again(&mut self, pod: &PodUid) {
        if self.waiting_pod(pod).is_some() {
            self.contenders.pods.entry(pod.clone()).or_default().asks = true;
            self.preempt_bell.notify_one();
        }
    }

    /// The best pod whose turn it is, and when the next one's turn comes.
    pub fn next_contender(&self, now: Now) -> (Option<Contention>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut best: Option<Arc<WaitingPod>> = None;
        for (uid, contender) in self.contenders.pods.iter().filter(|(_, one)| one.asks) {
            let Some((pod, not_before)) = self.contender(uid, contender, now) else {
                continue;
            };
            if self.is_preempting(uid) {
                continue;
            }
            if let Some(later) = not_before.filter(|later| *later > now.instant) {
                next = Some(next.map_or(later, |next| next.min(later)));
            } else if best.as_ref().is_none_or(|best| pod.turn() < best.turn()) {
                best = Some(pod);
            }
        }
        let contention = best.map(|pod| {
            let named = self.candidates(&pod.pod.uid);
            let named = named.map(|named| self.nodes_in(Some(&named)));
            Contention {
                nodes: named.unwrap_or_default(),
                pod,
            }
        });
        (contention, next)
    }

    /// The pod, and when to look for victims at the earliest; nothing if it does not contend any more.
    fn contender(
        &self,
        uid: &PodUid,
        contender: &Contender,
        now: Now,
    ) -> Option<(Arc<WaitingPod>, Option<Instant>)> {
        if let Some((pod, Some(_))) = self.waiting_pod(uid) {
            return Some((pod.clone(), contender.not_before));
        }
        let known = self.pods.get(uid).filter(|_| self.contends_unasked(uid))?;
        let millis = known.created.saturating_mul(1000);
        let first = now.when(millis.saturating_add(SCHEDULER_FIRST_MILLIS));
        let not_before = contender.not_before.map_or(first, |later| later.max(first));
        Some((Arc::new(known.waiting(uid)), Some(not_before)))
    }

    /// No pod has to be evicted for this one.
    pub fn leave_contention(&mut self, pod: &PodUid) {
        self.contenders.remove(pod);
    }

    /// No pod can be evicted for this one at present: it contends again when it is refused again, after a
    /// pause.
    pub fn rest(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.contenders.pods.entry(pod.clone()).or_default();
        contender.asks = false;
        contender.failed(now, LONGEST_REST);
    }

    /// The pod contends again after a pause, longer each time.
    pub fn contend_later(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.contenders.pods.entry(pod.clone()).or_default();
        contender.asks = true;
        contender.failed(now, LONGEST_PAUSE);
        self.preempt_bell.notify_one();
    }
}
