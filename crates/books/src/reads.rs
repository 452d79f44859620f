//! Reads of single pods from the API server, beside the watch. A fence is a read too: its answer is the written pod.
//!
//! A read's answer may be older than what the watch has shown since. It must not book a pod again that has ended in
//! between. Such an answer is stale, and the pod must be read again.

use std::collections::HashMap;

use gpushare_core::PodUid;
use gpushare_kube::convert::PodFacts;

/// The reads that have not been answered yet, by pod.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    open: HashMap<PodUid, OpenReads>,
    last: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpenReads {
    count: u32,
    /// Answers of reads up to this number are stale.
    stale: u64,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Read {
    pub(crate) number: u64,
}

/// What a read has shown.
#[derive(Clone, Debug)]
pub enum Finding {
    /// Something newer is known: read again.
    Stale,
    /// Stale too, but the fence found the pod without a node, which is final. Read the pod again; it needs no other
    /// fence.
    Fenced(Box<PodFacts>),
    Gone,
    /// The pod as it is.
    Found(Box<PodFacts>),
}

impl Reads {
    pub(crate) fn begin(&mut self, pod: &PodUid) -> Read {
        self.open.entry(pod.clone()).or_default().count += 1;
        self.last += 1;
        Read { number: self.last }
    }

    /// The number of the read that was begun last.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Marks reads under way as stale, because something became known about the pod that their answers may not
    /// contain.
    pub(crate) fn outdate(&mut self, pod: &PodUid) {
        if let Some(open) = self.open.get_mut(pod) {
            open.stale = self.last;
        }
    }

    pub(crate) fn outdate_all(&mut self) {
        for open in self.open.values_mut() {
            open.stale = self.last;
        }
    }

    /// Ends a read that was answered or cannot be answered. Returns whether its answer is stale.
    pub(crate) fn end(&mut self, pod: &PodUid, read: Read) -> bool {
        let Some(open) = self.open.get_mut(pod) else {
            return false;
        };
        let stale = read.number <= open.stale;
        open.count = open.count.saturating_sub(1);
        if open.count == 0 {
            self.open.remove(pod);
        }
        stale
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}
