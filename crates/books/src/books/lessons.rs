//! From which pods the policy has learned: once from each, whether the watch or the scheduler shows it first.
//!
//! Usually the watch does. If the scheduler's own watch is ahead of ours, its request shows the pod first, and the
//! policy must learn from it before it decides for it; otherwise the lessons applied to a pod would depend on
//! milliseconds.

use std::collections::{HashSet, VecDeque};

use gpushare_core::PodUid;
use gpushare_kube::convert::PodFacts;

use super::Books;

/// Far more pods than a watch lags behind. Learning twice from a pod that was forgotten and shown again does no harm.
const REMEMBERED: usize = 1_024;

/// Pods from which the policy has learned but that are not in the state: not yet shown by the watch, or recently ended.
#[derive(Debug, Default)]
pub(super) struct Lessons {
    pods: HashSet<PodUid>,
    /// The oldest first; may contain some that are no longer in `pods`.
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

impl Books {
    /// Whether the policy could learn from this pod.
    pub fn is_news(&self, pod: &PodFacts) -> bool {
        matches!(pod.ask, Ok(Some(_))) && self.ready().is_ok() && self.is_new(&pod.uid)
    }

    fn is_new(&self, pod: &PodUid) -> bool {
        !self.pods.contains_key(pod) && !self.lessons.pods.contains(pod)
    }

    /// Learns from a pod as the scheduler shows it. Only its request is used; the pod is not added to the state.
    pub fn meet(&mut self, pod: &PodFacts) {
        if let Ok(Some(ask)) = &pod.ask
            && self.is_news(pod)
        {
            self.packing.observe(ask, pod.host);
            self.lessons.remember(&pod.uid);
        }
    }

    /// Whether the policy has yet to learn from a pod that is about to be added to the state.
    pub(super) fn teaches(&mut self, pod: &PodUid) -> bool {
        let new = self.is_new(pod);
        self.lessons.pods.remove(pod);
        new
    }
}
