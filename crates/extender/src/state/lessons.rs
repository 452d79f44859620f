//! From which pods the policy has learned: from each once, whoever shows it first.
//!
//! Mostly that is the watch. Where the scheduler's own watch is ahead of ours, its request shows the pod, and the
//! policy must know of it before it decides for it; otherwise milliseconds would decide which lessons a pod is judged by.

use std::collections::{HashSet, VecDeque};

use gpushare_core::PodUid;
use gpushare_kube::convert::PodFacts;

use super::State;

/// Far more than a watch is behind. A pod that is forgotten and shown again is learned from twice, which is no harm.
const REMEMBERED: usize = 1_024;

/// Pods from which was learned and that are not kept: not yet shown by the watch, or ended a short while ago.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    pods: HashSet<PodUid>,
    /// The oldest first; also some that are in `pods` no more.
    order: VecDeque<PodUid>,
}

impl Lessons {
    pub(super) fn remember(&mut self, pod: &PodUid) {
        if !self.pods.insert(pod.clone()) {
            return;
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.pods.remove(&oldest);
        }
        self.order.push_back(pod.clone());
    }
}

impl State {
    /// Whether the policy could learn from this pod.
    pub(crate) fn is_news(&self, pod: &PodFacts) -> bool {
        matches!(pod.ask, Ok(Some(_))) && self.ready().is_ok() && self.is_new(&pod.uid)
    }

    fn is_new(&self, pod: &PodUid) -> bool {
        !self.pods.contains_key(pod) && !self.lessons.pods.contains(pod)
    }

    /// A pod as the scheduler shows it: nothing is known by that but what somebody asks for.
    pub(crate) fn meet(&mut self, pod: &PodFacts) {
        if let Ok(Some(ask)) = &pod.ask
            && self.is_news(pod)
        {
            self.packing.observe(ask, pod.host);
            self.lessons.remember(&pod.uid);
        }
    }

    /// Whether the policy has yet to learn from a pod that is about to be kept.
    pub(super) fn teaches(&mut self, pod: &PodUid) -> bool {
        let new = self.is_new(pod);
        self.lessons.pods.remove(pod);
        new
    }
}
