//! Preemptions under way: for whom room is claimed, who has to go for it, and how far it is.
//!
//! ```text
//! plan ──► begin ──► written ──► victims evicted ──► victims gone ──► woken ──► bound
//!            │           └────────────── given up, refused by a budget ──────────► contends again
//!            └ the room is claimed in the ledger from here on
//! ```
//!
//! The claim on the pod is what survives a restart. Whoever sees one on a pending pod takes it over, so
//! every replica knows them all; only the leader acts. A claim that we have ended ourselves may still be
//! shown by the watch for a moment: it is told from a new one by the time at which it was made. What a
//! leader has not written when it stops leading never was.

pub(super) mod plan;
pub(super) mod steps;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use gpushare_core::preempt::{ClaimError, ClaimRecord, Evictor};
use gpushare_core::{Placement, PodUid, Record};

use super::{Books, KnownPod};
use gpushare_kube::PodRef;
use plan::{Preemptor, Proposal};
use steps::Step;

/// At most so many pods have room claimed for them at the same time.
const MOST_AT_ONCE: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Now, for waiting and for comparing with what others have written.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub instant: Instant,
    /// Since 1970.
    pub millis: i64,
}

impl Now {
    /// The instant at which the wall clock will show this.
    pub(super) fn when(&self, millis: i64) -> Instant {
        let ahead = u64::try_from(millis.saturating_sub(self.millis)).unwrap_or(0);
        self.instant + Duration::from_millis(ahead)
    }
}

#[derive(Debug, Default)]
pub(super) struct Preemptions {
    live: BTreeMap<PodUid, Preemption>,
    /// Ended by us, while the pod may still show the claim.
    ended: HashMap<PodUid, Ended>,
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
struct Ended {
    since: i64,
    /// The claim is off the pod.
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
pub(super) type Shown = Result<(ClaimRecord, Placement), ClaimError>;

/// Why a proposal was not taken up.
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
    /// Whose claims of lower rank on the same cards have ended for it.
    pub outranked: Vec<PodRef>,
}

impl Books {
    pub fn may_preempt_more(&self) -> bool {
        self.preemptions.live.len() < MOST_AT_ONCE
    }

    pub fn preemption_count(&self) -> usize {
        self.preemptions.live.len()
    }

    /// Whether a claim of the pod is alive, or was and is still to be taken off it.
    pub(super) fn is_preempting(&self, pod: &PodUid) -> bool {
        let ended = self.preemptions.ended.get(pod);
        self.preemptions.live.contains_key(pod) || ended.is_some_and(|ended| !ended.cleared)
    }

    /// The node and the victims of the pod's claim.
    pub fn preemption(&self, pod: &PodUid) -> Option<&ClaimRecord> {
        self.preemptions.live.get(pod).map(|live| &live.record)
    }

    /// Whether this is the claim that is alive for the pod.
    pub fn is_claim_of(&self, pod: &PodUid, record: &str) -> bool {
        let live = self.preemptions.live.get(pod);
        live.is_some_and(|live| live.record.encode() == record)
    }

    pub fn has_written_claim(&self, pod: &PodUid) -> bool {
        let live = self.preemptions.live.get(pod);
        live.is_some_and(|live| live.written)
    }

    /// Claims the proposal's room, if it still makes sense.
    pub fn begin_preemption(
        &mut self,
        preemptor: &Preemptor,
        proposal: &Proposal,
        evictor: Evictor,
        now: Now,
    ) -> Result<NewPreemption, StaleProposal> {
        let pod = &preemptor.pod.uid;
        let wants = self.pods.get(pod).is_some_and(KnownPod::wants_node);
        let booked = self.ledger.booking(pod.as_str()).is_some();
        if !wants || booked || self.is_preempting(pod) {
            return Err(StaleProposal::Pod);
        }
        let (placement, outranked) = self
            .still_makes_room(preemptor, proposal, now)
            .ok_or(StaleProposal::Node)?;
        let node = &proposal.node;
        for other in &outranked {
            self.end_preemption(&other.uid);
            self.contend_again(&other.uid);
        }
        let room = Record::new(pod.clone(), node.clone(), self.ledger.classes(), &placement);
        let victims = proposal.victims.clone();
        let record = ClaimRecord::new(room, victims, evictor, now.millis);
        let mut preemption = Preemption::new(record, false);
        preemption.busy = true;
        let first = preemption.write();
        self.take_up(pod.clone(), preemption, placement);
        self.contenders.remove(pod);
        Ok(NewPreemption { first, outranked })
    }

    fn take_up(&mut self, pod: PodUid, preemption: Preemption, placement: Placement) {
        let Some(known) = self.pods.get(&pod) else {
            return;
        };
        let node = preemption.record.node().clone();
        self.ledger.claim(&pod, &node, &known.ask, placement);
        self.redraw(&[node]);
        self.preemptions.live.insert(pod, preemption);
        self.preempt_bell.notify_one();
    }

    /// Gives the pod's claimed room back. The claim is taken off the pod later.
    pub fn end_preemption(&mut self, pod: &PodUid) {
        let Some(live) = self.preemptions.live.remove(pod) else {
            return;
        };
        let node = live.record.node().clone();
        self.ledger.unclaim(pod);
        self.redraw(std::slice::from_ref(&node));
        self.growth.room(node.as_str());
        // A write that was not answered may still take effect.
        if live.written || live.busy || live.writes.times > 0 {
            let ended = Ended {
                since: live.record.since,
                cleared: false,
                busy: live.busy,
                clears: Repeated::default(),
            };
            self.preemptions.ended.insert(pod.clone(), ended);
        }
        self.preempt_bell.notify_one();
    }

    /// Forgets the pod's claim, because it is bound, ended or gone.
    pub(super) fn forget_preemption(&mut self, pod: &PodUid) {
        self.end_preemption(pod);
        self.preemptions.ended.remove(pod);
        self.contenders.remove(pod);
    }

    /// This replica has stopped leading: of what it had begun and ended only what the pods show is left.
    pub fn stop_preempting(&mut self) {
        self.preemptions.ended.clear();
        let unseen = |(pod, live): (&PodUid, &Preemption)| (!live.seen).then(|| pod.clone());
        let unseen: Vec<PodUid> = self.preemptions.live.iter().filter_map(unseen).collect();
        for pod in unseen {
            self.end_preemption(&pod);
            self.preemptions.ended.remove(&pod);
        }
    }

    /// Ends all preemptions, because none are wanted.
    pub fn end_all_preemptions(&mut self) {
        let live: Vec<PodUid> = self.preemptions.live.keys().cloned().collect();
        for pod in live {
            self.end_preemption(&pod);
        }
    }

    /// What the watch shows of the pod's claim.
    pub(super) fn note_claim(&mut self, pod: &PodUid, shown: Option<Shown>) {
        if !self.pods.get(pod).is_some_and(KnownPod::wants_node) {
            self.forget_preemption(pod);
            return;
        }
        let shown = shown.and_then(|shown| {
            shown
                .inspect_err(|error| tracing::warn!(%pod, %error, "a claim on room is ignored"))
                .ok()
        });
        let since = shown.as_ref().map(|(record, _)| record.since);
        if let Some(ended) = self.preemptions.ended.get_mut(pod) {
            if since == Some(ended.since) {
                ended.cleared = false;
                return;
            }
            if ended.cleared || since.is_some() {
                self.preemptions.ended.remove(pod);
            }
        }
        let live = self.preemptions.live.get_mut(pod);
        match (live, shown) {
            (Some(live), Some(_)) if Some(live.record.since) == since => {
                live.written = true;
                live.seen = true;
            }
            // Ours is newer than the watch.
            (Some(live), Some((shown, _))) if shown.since < live.record.since => {}
            (Some(live), None) if !live.seen => {}
            // Another leader ended it, and perhaps began another one.
            (live, shown) => {
                if live.is_some() {
                    self.end_preemption(pod);
                    self.preemptions.ended.remove(pod);
                    self.contend_again(pod);
                }
                if let Some((record, placement)) = shown
                    && self.ledger.booking(pod.as_str()).is_none()
                {
                    self.take_up(pod.clone(), Preemption::new(record, true), placement);
                }
            }
        }
    }

    /// A complete list of pods carries these claims.
    pub(super) fn replace_claims(&mut self, mut shown: HashMap<PodUid, Shown>) {
        let known = self.preemptions.live.keys();
        let known: Vec<PodUid> = known
            .chain(self.preemptions.ended.keys())
            .cloned()
            .collect();
        for pod in known {
            let shown = shown.remove(&pod);
            self.note_claim(&pod, shown);
        }
        for (pod, shown) in shown {
            self.note_claim(&pod, Some(shown));
        }
        self.ring_for_preemptions();
    }

    /// Something has happened that preemptions under way may have waited for.
    pub(super) fn ring_for_preemptions(&self) {
        if !self.preemptions.live.is_empty() || !self.preemptions.ended.is_empty() {
            self.preempt_bell.notify_one();
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
