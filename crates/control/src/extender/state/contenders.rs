//! Pods that were refused and have a higher priority than somebody who runs: for whom to look for
//! victims next.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::{NodeName, PodUid};

use super::{KnownPod, State, WaitingPod};

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// For a pod whose victims are protected: budgets change slowly.
const LONGEST_PAUSE: Duration = Duration::from_mins(5);
/// For a pod for which nobody can go: looking at all nodes for each of its refusals would be too much.
const LONGEST_REST: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Contenders {
    pods: HashMap<PodUid, Contender>,
    /// How many pods with a node have which priority.
    priorities: BTreeMap<i32, usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Contender {
    /// It was refused since it was last looked at, or is to be looked at again in any case.
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

/// Whom to look at.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    pub(crate) pod: Arc<WaitingPod>,
    /// The nodes that the scheduler named last, in the order of names.
    pub(crate) nodes: Vec<NodeName>,
}

impl Contenders {
    pub(super) fn remove(&mut self, pod: &PodUid) {
        self.pods.remove(pod);
    }

    fn count(&mut self, pod: &KnownPod) {
        if pod.node.is_some() {
            *self.priorities.entry(pod.priority).or_default() += 1;
        }
    }

    fn discount(&mut self, pod: &KnownPod) {
        if pod.node.is_some()
            && let Some(count) = self.priorities.get_mut(&pod.priority)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.priorities.remove(&pod.priority);
            }
        }
    }
}

impl State {
    /// Keeps the pod, and counts its priority.
    pub(super) fn keep(&mut self, uid: PodUid, pod: KnownPod) {
        self.contenders.count(&pod);
        if let Some(before) = self.pods.insert(uid, pod) {
            self.contenders.discount(&before);
        }
    }

    /// Keeps the pod no more.
    pub(super) fn drop_pod(&mut self, pod: &PodUid) -> Option<KnownPod> {
        let known = self.pods.remove(pod)?;
        self.contenders.discount(&known);
        Some(known)
    }

    /// Keeps these pods and no others.
    pub(super) fn keep_only(
        &mut self,
        pods: HashMap<PodUid, KnownPod>,
    ) -> HashMap<PodUid, KnownPod> {
        self.contenders.priorities.clear();
        for pod in pods.values() {
            self.contenders.count(pod);
        }
        std::mem::replace(&mut self.pods, pods)
    }

    /// A refused pod contends if anybody with a node has a lower priority.
    pub(super) fn contend(&mut self, pod: &WaitingPod) {
        let lowest = self.contenders.priorities.keys().next();
        let uid = &pod.pod.uid;
        if pod.preempts
            && lowest.is_some_and(|lowest| *lowest < pod.priority)
            && self.preemption(uid).is_none()
        {
            self.contenders.pods.entry(uid.clone()).or_default().asks = true;
            self.preempt_bell.notify_one();
        }
    }

    /// The pod has lost what was claimed for it.
    pub(crate) fn contend_again(&mut self, pod: &PodUid) {
        if self.waiting_pod(pod).is_some() {
            self.contenders.pods.entry(pod.clone()).or_default().asks = true;
            self.preempt_bell.notify_one();
        }
    }

    /// The best pod whose turn it is, and when the next one's turn comes.
    pub(crate) fn next_contender(&self, now: Instant) -> (Option<Contention>, Option<Instant>) {
        let mut next: Option<Instant> = None;
        let mut best: Option<&Arc<WaitingPod>> = None;
        for (uid, contender) in self.contenders.pods.iter().filter(|(_, one)| one.asks) {
            let Some((pod, Some(_))) = self.waiting_pod(uid) else {
                continue;
            };
            if self.is_preempting(uid) {
                continue;
            }
            if let Some(later) = contender.not_before.filter(|later| *later > now) {
                next = Some(next.map_or(later, |next| next.min(later)));
            } else if best.is_none_or(|best| pod.rank() < best.rank()) {
                best = Some(pod);
            }
        }
        let contention = best.map(|pod| Contention {
            pod: pod.clone(),
            nodes: self.nodes_in(self.candidates(&pod.pod.uid).as_deref()),
        });
        (contention, next)
    }

    /// Nobody has to go for the pod.
    pub(crate) fn leave_contention(&mut self, pod: &PodUid) {
        self.contenders.remove(pod);
    }

    /// Nobody can go for the pod as things are: it is looked at again when it is refused again, after a
    /// while.
    pub(crate) fn rest(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.contenders.pods.entry(pod.clone()).or_default();
        contender.asks = false;
        contender.failed(now, LONGEST_REST);
    }

    /// The pod is looked at again after a while, each time a longer one.
    pub(crate) fn contend_later(&mut self, pod: &PodUid, now: Instant) {
        let contender = self.contenders.pods.entry(pod.clone()).or_default();
        contender.asks = true;
        contender.failed(now, LONGEST_PAUSE);
        self.preempt_bell.notify_one();
    }
}
