//! Preemptions under way: for which pods room is claimed, which pods are evicted for them, and how far each has
//! come.
//!
//! ```text
//! plan ──► begin ──► written ──► victims evicted ──► victims gone ──► woken ──► bound
//!            │           └────────────── given up, refused by a budget ──────────► contends again
//!            └ the room is claimed in the ledger from here on
//! ```
//!
//! The claim on the pod survives a restart. Every replica takes over the claims that it sees on pending pods, so
//! all replicas know all claims; only the leader acts. The watch may still show a claim for a moment after we
//! have ended it; the time at which it was made distinguishes it from a new claim. When a leader stops leading,
//! it forgets the claims that the watch has not shown yet. If such a claim was written, the watch shows it
//! later, and it is taken over as usual.

mod plan;
mod steps;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_core::preempt::{ClaimError, ClaimRecord};
use gpushare_core::{Ledger, Placement, PodUid};

use gpushare_kube::PodRef;
use tokio::sync::Notify;

use crate::nodes::Nodes;
use crate::pods::Pods;

pub use plan::{Proposal, Survey, Terms};
pub use steps::{Outcome, Reason, Step};

/// The most pods for which room is claimed at the same time.
const MOST_AT_ONCE: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The present on two clocks: one for waiting, and one to compare with times that others have written.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    /// Milliseconds since 1970, by the wall clock.
    pub millis: i64,
}

impl Now {
    /// The instant at which the wall clock will show this.
    pub(crate) fn when(&self, millis: i64) -> Instant {
        let ahead = u64::try_from(millis.saturating_sub(self.millis)).unwrap_or(0);
        self.instant + Duration::from_millis(ahead)
    }
}

#[derive(Debug)]
pub struct Preemptions {
    live: BTreeMap<PodUid, Preemption>,
    /// Claims that we have ended. Their pods may still carry them. A claim is forgotten when the watch shows the pod
    /// without it after its removal was answered, at the latest with the pod.
    ended: HashMap<PodUid, EndedClaim>,
    /// Rung when a step may be due.
    bell: Arc<Notify>,
}

/// What decisions about preemption are based on: the pods, what they hold, and the preemptions under way.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    pub(crate) pods: &'a Pods,
    pub(crate) ledger: &'a Ledger,
    pub(crate) preemptions: &'a Preemptions,
}

impl<'a> Situation<'a> {
    pub(crate) fn new(pods: &'a Pods, nodes: &'a Nodes, preemptions: &'a Preemptions) -> Self {
        Self {
            pods,
            ledger: nodes.ledger(),
            preemptions,
        }
    }
}

/// One pod's claim and what has been done about it.
#[derive(Debug)]
struct Preemption {
    record: ClaimRecord,
    /// The API server has the claim.
    written: bool,
    /// The watch has shown it.
    seen: bool,
    /// A step is under way.
    busy: bool,
    writes: Repeated,
    evictions: Repeated,
    nominations: Repeated,
    wakes: Repeated,
}

#[derive(Debug)]
struct EndedClaim {
    since: i64,
    /// The claim was removed from the pod.
    cleared: bool,
    /// A step is under way, perhaps one that began before the end.
    busy: bool,
    clears: Repeated,
}

/// Something that may be repeated, each time after a longer pause.
#[derive(Clone, Copy, Debug, Default)]
struct Repeated {
    times: u32,
    not_before: Option<Instant>,
}

impl Repeated {
    fn note(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.times.min(10));
        self.times = self.times.saturating_add(1);
        self.not_before = Some(now + pause.min(LONGEST_PAUSE));
    }

    /// When it may be done again, if that is not now.
    fn pauses_until(&self, now: Instant) -> Option<Instant> {
        self.not_before.filter(|later| *later > now)
    }
}

impl Preemption {
    fn new(record: ClaimRecord, shown: bool) -> Self {
        Self {
            record,
            written: shown,
            seen: shown,
            busy: false,
            writes: Repeated::default(),
            evictions: Repeated::default(),
            nominations: Repeated::default(),
            wakes: Repeated::default(),
        }
    }
}

/// A claim that a pod carries.
pub(crate) type ShownClaim = Result<(ClaimRecord, Placement), ClaimError>;

/// Why a proposal was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleProposal {
    /// The pod has ended, is bound or being bound, or has a claim already.
    Pod,
    /// The proposal does not make room any more.
    Node,
}

/// A preemption that has begun.
#[derive(Debug)]
pub struct NewPreemption {
    /// Its first step, which is under way from now on.
    pub first: Step,
    /// The pods of lower rank whose claims on the same cards were ended for it.
    pub outranked: Vec<PodRef>,
}

impl Preemptions {
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self {
            live: BTreeMap::new(),
            ended: HashMap::new(),
            bell,
        }
    }

    pub fn count(&self) -> usize {
        self.live.len()
    }

    pub fn may_begin_more(&self) -> bool {
        self.live.len() < MOST_AT_ONCE
    }

    /// Whether the pod has a claim, or an ended claim that must still be removed from it.
    pub(crate) fn is_under_way(&self, pod: &PodUid) -> bool {
        let ended = self.ended.get(pod);
        self.live.contains_key(pod) || ended.is_some_and(|ended| !ended.cleared)
    }

    /// The node and the victims of the pod's claim.
    pub fn claim(&self, pod: &PodUid) -> Option<&ClaimRecord> {
        self.live.get(pod).map(|live| &live.record)
    }

    /// Whether this is the pod's present claim.
    pub fn is_claim_of(&self, pod: &PodUid, record: &str) -> bool {
        let live = self.live.get(pod);
        live.is_some_and(|live| live.record.encode() == record)
    }

    pub fn has_written_claim(&self, pod: &PodUid) -> bool {
        let live = self.live.get(pod);
        live.is_some_and(|live| live.written)
    }

    /// Claims room for a pod. Returns the first step, which is under way from now on.
    pub(crate) fn begin(
        &mut self,
        pods: &Pods,
        nodes: &mut Nodes,
        pod: &PodUid,
        (record, placement): (ClaimRecord, Placement),
    ) -> Step {
        let mut preemption = Preemption::new(record, false);
        preemption.busy = true;
        let first = preemption.write();
        self.take_up(pods, nodes, pod.clone(), preemption, placement);
        first
    }

    fn take_up(
        &mut self,
        pods: &Pods,
        nodes: &mut Nodes,
        pod: PodUid,
        preemption: Preemption,
        placement: Placement,
    ) {
        let Some(known) = pods.get(pod.as_str()) else {
            return;
        };
        nodes.claim(&pod, preemption.record.node(), &known.ask, placement);
        self.live.insert(pod, preemption);
        self.bell.notify_one();
    }

    /// Gives the pod's claimed room back. The claim is removed from the pod later.
    pub(crate) fn end(&mut self, nodes: &mut Nodes, pod: &PodUid) {
        let Some(live) = self.live.remove(pod) else {
            return;
        };
        nodes.unclaim(pod, live.record.node());
        // A write that was not answered may still take effect.
        if live.written || live.busy || live.writes.times > 0 {
            let ended = EndedClaim {
                since: live.record.since,
                cleared: false,
                busy: live.busy,
                clears: Repeated::default(),
            };
            self.ended.insert(pod.clone(), ended);
        }
        self.bell.notify_one();
    }

    /// Forgets the pod's claim, because the pod is bound, ended or gone, or lost the claim.
    pub(crate) fn forget(&mut self, nodes: &mut Nodes, pod: &PodUid) {
        self.end(nodes, pod);
        self.ended.remove(pod);
    }

    /// This replica has stopped leading. It keeps only the claims that the watch has shown.
    pub(crate) fn stop(&mut self, nodes: &mut Nodes) {
        self.ended.clear();
        let unseen = |(pod, live): (&PodUid, &Preemption)| (!live.seen).then(|| pod.clone());
        let unseen: Vec<PodUid> = self.live.iter().filter_map(unseen).collect();
        for pod in unseen {
            self.forget(nodes, &pod);
        }
    }

    /// Ends all preemptions, because none are wanted.
    pub(crate) fn end_all(&mut self, nodes: &mut Nodes) {
        let live: Vec<PodUid> = self.live.keys().cloned().collect();
        for pod in live {
            self.end(nodes, &pod);
        }
    }

    /// The pods whose claims are known.
    pub(crate) fn uids(&self) -> Vec<PodUid> {
        self.live.keys().chain(self.ended.keys()).cloned().collect()
    }

    /// Applies what the watch shows of the claim of a pod that wants a node. Returns whether the pod has lost
    /// its claim.
    pub(crate) fn note_claim(
        &mut self,
        pods: &Pods,
        nodes: &mut Nodes,
        pod: &PodUid,
        shown: Option<ShownClaim>,
    ) -> bool {
        let shown = shown.and_then(|shown| {
            shown
                .inspect_err(|error| tracing::warn!(%pod, %error, "a claim on room is ignored"))
                .ok()
        });
        let since = shown.as_ref().map(|(record, _)| record.since);
        if let Some(ended) = self.ended.get_mut(pod) {
            if since == Some(ended.since) {
                ended.cleared = false;
                return false;
            }
            if ended.cleared || since.is_some() {
                self.ended.remove(pod);
            }
        }
        match (self.live.get_mut(pod), shown) {
            (Some(live), Some(_)) if Some(live.record.since) == since => {
                live.written = true;
                live.seen = true;
                false
            }
            // Our claim is newer than what the watch shows.
            (Some(live), Some((shown, _))) if shown.since < live.record.since => false,
            (Some(live), None) if !live.seen => false,
            // No claim was known, or another leader ended ours. The pod may carry a new claim.
            (live, shown) => {
                let lost = live.is_some();
                if lost {
                    self.forget(nodes, pod);
                }
                if let Some((record, placement)) = shown
                    && !nodes.is_booked(pod)
                {
                    let preemption = Preemption::new(record, true);
                    self.take_up(pods, nodes, pod.clone(), preemption, placement);
                }
                lost
            }
        }
    }

    /// Rings if there are preemptions that may have waited for what has just happened.
    pub(crate) fn ring(&self) {
        if !self.live.is_empty() || !self.ended.is_empty() {
            self.bell.notify_one();
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
