//! Lessons: the pods from which the policy has learned. It learns once from each pod, whether the watch or the
//! scheduler shows the pod first.
//!
//! Usually the watch is first. If the scheduler's own watch is ahead of ours, the scheduler's request shows the pod
//! first. The policy must then learn from the pod before it places it; otherwise the lessons applied to a pod would
//! depend on milliseconds.

use std::collections::{HashSet, VecDeque};

use gpushare_core::PodUid;

use crate::pods::Pods;

/// Far more pods than a watch lags behind. Learning twice from a pod that was forgotten and shown again does no harm.
const REMEMBERED: usize = 1_024;

/// Pods from which the policy has learned but that are not in the index: not yet shown by the watch, or recently ended.
#[derive(Debug, Default)]
pub(crate) struct Lessons {
    pods: HashSet<PodUid>,
    /// The oldest first; may contain some that are no longer in `pods`.
    order: VecDeque<PodUid>,
}

impl Lessons {
    /// Whether the policy has yet to learn from the pod.
    pub(crate) fn lacks(&self, pods: &Pods, pod: &PodUid) -> bool {
        pods.get(pod.as_str()).is_none() && !self.pods.contains(pod)
    }

    /// Like [`Self::lacks`], for a pod that is about to be added to the index.
    pub(crate) fn lacked(&mut self, pods: &Pods, pod: &PodUid) -> bool {
        let lacked = self.lacks(pods, pod);
        self.pods.remove(pod);
        lacked
    }

    pub(crate) fn remember(&mut self, pod: &PodUid) {
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
