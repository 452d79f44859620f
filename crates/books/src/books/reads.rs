//! Reads of single pods from the API server, beside the watch. A fence is a read too: its answer is the written pod.
//!
//! A read's answer may be older than what the watch has shown since: it must not book a pod again that
//! ended in between. Such an answer is stale, and the read is to be repeated.

use gpushare_core::{Ledger, PodUid};
use gpushare_kube::convert::PodFacts;

use super::Books;

/// Reads of one pod that have not been answered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Open {
    count: u32,
    /// Answers of reads up to this number are stale.
    stale: u64,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Read {
    number: u64,
}

#[derive(Clone, Debug)]
pub enum Finding {
    /// Something newer is known: read again.
    Stale,
    /// Stale too, but the pod was fenced while it had no node, which is final: read it again, without another fence.
    Fenced(Box<PodFacts>),
    Gone,
    /// The pod as it is.
    Found(Box<PodFacts>),
}

impl Books {
    pub fn begin_read(&mut self, pod: &PodUid) -> Read {
        self.reads.entry(pod.clone()).or_default().count += 1;
        self.last_read += 1;
        Read {
            number: self.last_read,
        }
    }

    /// Marks reads under way as stale: something became known of the pod that their answers may not contain.
    pub(super) fn outdate_reads(&mut self, pod: &PodUid) {
        if let Some(open) = self.reads.get_mut(pod) {
            open.stale = self.last_read;
        }
    }

    pub(super) fn outdate_all_reads(&mut self) {
        for open in self.reads.values_mut() {
            open.stale = self.last_read;
        }
    }

    /// A read that could not be answered.
    pub fn abandon_read(&mut self, pod: &PodUid, read: Read) {
        self.close(pod, read);
    }

    /// The answer of a read.
    pub fn finish_read(&mut self, pod: &PodUid, read: Read, answer: Option<PodFacts>) -> Finding {
        if self.close(pod, read) {
            return Finding::Stale;
        }
        let Some(facts) = answer.filter(|facts| facts.uid == *pod && !facts.ended) else {
            self.end_pod(pod);
            return Finding::Gone;
        };
        // Not confirmed yet: a list under way may be older than this answer.
        self.take_in(facts.clone(), Ledger::learn);
        Finding::Found(Box::new(facts))
    }

    /// The answer of a fence: no bind that was decided before it can take effect any more.
    ///
    /// A fence of a pod without a node stays valid whatever became known of the pod since. If it had to be
    /// repeated, a tenant that changes a pod all the time would keep binds closed at the beginning of a term.
    pub fn finish_fence(&mut self, pod: &PodUid, read: Read, answer: Option<PodFacts>) -> Finding {
        let unbound = answer
            .clone()
            .filter(|facts| facts.uid == *pod && facts.node.is_none() && !facts.ended);
        let verdict = self.finish_read(pod, read, answer);
        let Some(facts) = unbound else {
            return verdict;
        };
        self.clear_doubt(pod, read.number);
        match verdict {
            Finding::Stale => Finding::Fenced(Box::new(facts)),
            current => current,
        }
    }

    /// True when the answer is stale.
    fn close(&mut self, pod: &PodUid, read: Read) -> bool {
        let Some(open) = self.reads.get_mut(pod) else {
            return false;
        };
        let stale = read.number <= open.stale;
        open.count = open.count.saturating_sub(1);
        if open.count == 0 {
            self.reads.remove(pod);
        }
        stale
    }
}
