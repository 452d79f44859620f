//! Contenders: pods without a node that outrank a pod with one, and for which victims are looked for next.
//!
//! Most of them were refused by us. Where a node's totals do not suffice, kube-scheduler refuses by itself and
//! asks us only if it finds victims by priority. A pod over budget may have any priority, so while such a pod is
//! on a node, every pending pod contends, even if the scheduler has not asked about it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::ledger::NodeView;
use gpushare_core::preempt::Rank;
use gpushare_core::{NodeName, PodUid, Steps};
use tokio::sync::Notify;

use crate::nodes::Nodes;
use crate::pods::KnownPod;
use crate::preemptions::{Now, Situation};
use crate::waiting::Waiting;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause of a pod whose possible victims are protected: PodDisruptionBudgets change slowly.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// How long the scheduler may take with a new pod before we look for victims unasked.
const SCHEDULER_FIRST_MILLIS: i64 = 2_000;
/// The longest pause of a pod without possible victims: searching all nodes after each refusal would be too much
/// work.
const LONGEST_REST: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Contenders {
    pods: HashMap<PodUid, Contender>,
    /// Rung when a search for victims may be due.
    bell: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Contender {
    /// Whether it was refused since the last search for victims, or needs another search in any case.
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
    pub pod: Arc<KnownPod>,
    /// The nodes that the scheduler named last, sorted by name; empty if it has not asked.
    pub nodes: Vec<NodeName>,
}

impl Contenders {
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self {
            pods: HashMap::new(),
            bell,
        }
    }

    pub(crate) fn remove(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
    }

    fn add(&mut self, pod: &PodUid) {
        self.pods.entry(pod.clone()).or_default().asks = true;
        self.bell.notify_one();
    }

    /// Lets a refused pod contend if a pod with a node has a lower rank.
    pub(crate) fn add_refused(&mut self, pod: &KnownPod, situation: &Situation<'_>) {
        let lowest = situation.pods.lowest_rank();
        if pod.preemption.preempts
            && lowest.is_some_and(|lowest| lowest < pod.rank)
            && situation.preemptions.claim(&pod.pod.uid).is_none()
        {
            self.add(&pod.pod.uid);
        }
    }

    /// Lets a pending pod contend before the scheduler asks about it, if a pod over budget has a node.
    pub(crate) fn add_unasked(&mut self, pod: &KnownPod, situation: &Situation<'_>) {
        let uid = &pod.pod.uid;
        if situation.contends_unasked(pod) && situation.preemptions.claim(uid).is_none() {
            self.add(uid);
        }
    }

    /// Lets every pending pod contend if a pod over budget has a node. Called when ranks may have dropped.
    pub(crate) fn add_all(&mut self, situation: &Situation<'_>) {
        if situation.is_anyone_over_budget() {
            for pod in situation.pods.pending() {
                self.add_unasked(pod, situation);
            }
        }
    }

    /// Lets a pod contend again that has lost its claim and still waits.
    pub(crate) fn add_again(&mut self, pod: &PodUid, waiting: &Waiting) {
        if waiting.contains(pod) {
            self.add(pod);
        }
    }

    /// No pod can be evicted for this one at present. It contends again after a pause, once it is refused again.
    pub(crate) fn rest(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.pods.entry(pod.clone()).or_default();
        contender.asks = false;
        contender.failed(now, LONGEST_REST);
    }

    /// The pod contends again after a pause, longer each time.
    pub(crate) fn add_later(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.pods.entry(pod.clone()).or_default();
        contender.asks = true;
        contender.failed(now, LONGEST_PAUSE);
        self.bell.notify_one();
    }

    /// The best pod whose turn it is, and when the next one's turn comes.
    pub(crate) fn next(
        &self,
        situation: &Situation<'_>,
        waiting: &Waiting,
        now: Now,
    ) -> (Option<Arc<KnownPod>>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut best: Option<Arc<KnownPod>> = None;
        for (uid, contender) in self.pods.iter().filter(|(_, one)| one.asks) {
            let turn = contender.turn(uid, situation, waiting, now);
            let Some((pod, not_before)) = turn else {
                continue;
            };
            if situation.preemptions.is_under_way(uid) {
                continue;
            }
            if let Some(later) = not_before.filter(|later| *later > now.instant) {
                next = Some(next.map_or(later, |next| next.min(later)));
            } else if best.as_ref().is_none_or(|best| pod.turn() < best.turn()) {
                best = Some(pod.clone());
            }
        }
        (best, next)
    }
}

impl Contender {
    /// The pod, and the earliest time to look for victims; `None` if it no longer contends.
    fn turn<'s>(
        &self,
        uid: &PodUid,
        situation: &Situation<'s>,
        waiting: &'s Waiting,
        now: Now,
    ) -> Option<(&'s Arc<KnownPod>, Option<Instant>)> {
        if let Some((pod, Some(_))) = waiting.get(uid) {
            return Some((pod, self.not_before));
        }
        let known = situation.pods.get(uid.as_str());
        let known = known.filter(|known| situation.contends_unasked(known))?;
        let millis = known.created.saturating_mul(1000);
        let first = now.when(millis.saturating_add(SCHEDULER_FIRST_MILLIS));
        let not_before = self.not_before.map_or(first, |later| later.max(first));
        Some((known, Some(not_before)))
    }
}

impl Situation<'_> {
    fn is_anyone_over_budget(&self) -> bool {
        self.pods.lowest_rank().is_some_and(Rank::is_over_budget)
    }

    fn contends_unasked(&self, pod: &KnownPod) -> bool {
        pod.wants_node()
            && pod.preemption.preempts
            && !pod.rank.is_over_budget()
            && self.is_anyone_over_budget()
            && self.ledger.booking(pod.pod.uid.as_str()).is_none()
    }

    /// The nodes on which a pod over budget holds a card and this pod finds no room.
    pub fn nodes_to_win_back(&self, nodes: &Nodes, pod: &PodUid) -> Vec<NodeName> {
        let held = |node: &&NodeName| {
            let view = self.ledger.node(node.as_str());
            let mut holders = view.into_iter().flat_map(NodeView::bookings);
            holders.any(|(holder, _)| {
                let known = self.pods.get(holder.as_str());
                known.is_some_and(|known| known.rank.is_over_budget())
            })
        };
        let (nodes, steps) = (nodes.iter().filter(held), Steps::for_request());
        nodes
            .filter(|node| !self.fits_within(pod, node, &steps))
            .cloned()
            .collect()
    }
}
