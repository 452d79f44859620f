//! Reads of single pods from the API server, beside the watch.
//!
//! A read's answer may be older than what the watch has shown since: a pod that ended in between must
//! not be booked again by it. Such an answer is stale, and the read is to be repeated.

use std::time::Instant;

use gpushare_core::PodUid;
use gpushare_core::ledger::State as Booked;
use gpushare_kube::convert::PodFacts;

use super::State;

/// Reads of one pod that have not been answered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    count: u32,
    pub(super) stale: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Something newer is known: read again.
    Stale,
    Gone,
    /// The pod as it is.
    Found(Box<PodFacts>),
}

impl State {
    pub(crate) fn begin_read(&mut self, pod: &PodUid) {
        self.reads.entry(pod.clone()).or_default().count += 1;
    }

    /// A read that could not be answered.
    pub(crate) fn abandon_read(&mut self, pod: &PodUid) {
        self.close(pod);
    }

    /// The answer of a read that was sent at `sent`.
    pub(crate) fn finish_read(
        &mut self,
        pod: &PodUid,
        sent: Instant,
        answer: Option<PodFacts>,
    ) -> Verdict {
        if self.close(pod) {
            return Verdict::Stale;
        }
        let Some(facts) = answer.filter(|facts| facts.uid == *pod && !facts.ended) else {
            self.end_pod(pod);
            return Verdict::Gone;
        };
        self.apply_pod(facts.clone());
        let clears = self
            .attempts
            .get(pod)
            .and_then(|attempts| attempts.doubtful_until)
            .is_some_and(|until| until <= sent);
        if clears && self.booked(pod) == Some(Booked::InDoubt) {
            self.forget_booking(pod);
        }
        Verdict::Found(Box::new(facts))
    }

    /// True when the answer is stale.
    fn close(&mut self, pod: &PodUid) -> bool {
        let Some(open) = self.reads.get_mut(pod) else {
            return false;
        };
        open.count = open.count.saturating_sub(1);
        let stale = open.stale;
        if open.count == 0 {
            self.reads.remove(pod);
        }
        stale
    }
}
