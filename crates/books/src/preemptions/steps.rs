//! The next step of each preemption, derived from what is known now.
//!
//! No sequence of steps is stored. Each step follows from the present state alone, so any replica can
//! continue an interrupted preemption at the right step.

use std::time::Instant;

use gpushare_core::ledger::NodeView;
use gpushare_core::preempt::Evictor;
use gpushare_core::{Ledger, NodeName, PodUid, Steps};
use gpushare_kube::PodRef;

use super::{EndedClaim, Now, Preemption, Preemptions, Repeated, Situation};
use crate::nodes::Nodes;
use crate::pods::{KnownPod, Pods};

/// A preemption that is not over after this long is given up, unless it waits for pods that are ending.
const LASTS_MILLIS: i64 = 10 * 60 * 1000;
/// How long the scheduler may take to begin the evictions that it announced. After that, we evict the
/// victims.
const SCHEDULER_TAKES_MILLIS: i64 = 15 * 1000;

/// Something to be done with the API server for a preemptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes the claim on the pod.
    Write { record: String, node: NodeName },
    /// Evicts pods, in this order.
    Evict {
        victims: Vec<PodRef>,
        node: NodeName,
    },
    /// Nominates the node for the pod again, because the scheduler has cleared the nomination.
    Nominate { node: NodeName },
    /// Makes the scheduler try the pod, because its room is free.
    Wake { node: NodeName },
    /// Removes the claim from the pod.
    Clear,
    /// Ends the preemption.
    GiveUp(Reason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The preemption took too long.
    Late,
    /// A pod on the claimed cards should have ended, and does not.
    Stuck,
    /// No pod is left to wait for, and there is no room.
    NoRoom,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The step will be tried again.
    Failed,
    /// The pod is gone.
    Gone,
}

enum Next {
    Do(Step),
    At(Instant),
    /// There is nothing to do until something happens.
    Wait,
}

impl Preemptions {
    /// The steps to be done now, each marked as under way; and when to look again even if nothing
    /// happens.
    pub(crate) fn steps(
        &mut self,
        pods: &Pods,
        ledger: &Ledger,
        now: Now,
    ) -> (Vec<(PodRef, Step)>, Option<Instant>) {
        let mut steps = Vec::new();
        let mut again: Option<Instant> = None;
        let mut sort = |pod: &PodUid, next: Next| match next {
            Next::Do(step) => {
                steps.extend(pods.reference(pod).map(|pod| (pod, step)));
            }
            Next::At(moment) => again = Some(again.map_or(moment, |again| again.min(moment))),
            Next::Wait => {}
        };
        let situation = Situation {
            pods,
            ledger,
            preemptions: self,
        };
        for (pod, live) in &self.live {
            sort(pod, situation.next(pod, live, now));
        }
        for (pod, ended) in &self.ended {
            sort(pod, ended.next(now.instant));
        }
        for (pod, step) in &steps {
            match step {
                Step::Clear => self.ended.get_mut(&pod.uid).map(|ended| ended.busy = true),
                _ => self.live.get_mut(&pod.uid).map(|live| live.busy = true),
            };
        }
        (steps, again)
    }

    /// Notes what became of a step.
    pub(crate) fn finish_step(
        &mut self,
        nodes: &mut Nodes,
        (pod, step): (&PodUid, &Step),
        outcome: Outcome,
        now: Instant,
    ) {
        match (self.live.get_mut(pod), self.ended.get_mut(pod)) {
            (Some(live), _) if *step != Step::Clear => live.finish(step, outcome, now),
            (_, Some(ended)) => ended.finish(step, outcome, now),
            _ => {}
        }
        if outcome == Outcome::Gone {
            self.forget(nodes, pod);
        }
        self.bell.notify_one();
    }
}

impl Situation<'_> {
    fn next(&self, pod: &PodUid, live: &Preemption, now: Now) -> Next {
        if live.busy || self.ledger.booking(pod.as_str()).is_some() {
            return Next::Wait;
        }
        let node = live.record.node();
        let fits = self.fits_there(pod, node);
        // By this time the last of the ending pods on the claimed cards has ended or is stuck.
        let overdue = self.holders(pod).filter_map(|(_, known)| known.stuck_at());
        let gone_by = overdue.max().filter(|by| *by > now.millis);
        let late_at = live.record.since.saturating_add(LASTS_MILLIS);
        let given_up_at = gone_by.filter(|_| !fits).unwrap_or(0).max(late_at);
        if given_up_at <= now.millis {
            return Next::Do(Step::GiveUp(Reason::Late));
        }
        self.towards_the_end(pod, live, fits, gone_by, now)
            .at_latest(now.when(given_up_at))
    }

    /// The next step of a preemption that is not late.
    fn towards_the_end(
        &self,
        pod: &PodUid,
        live: &Preemption,
        fits: bool,
        gone_by: Option<i64>,
        now: Now,
    ) -> Next {
        let at = now.instant;
        if !live.written {
            return live.writes.then(live.write(), at);
        }
        let node = live.record.node().clone();
        let scheduler_evicts = live.record.evictor == Evictor::Scheduler;
        let victims = self.victims_left(pod, live);
        // If the scheduler evicts the victims, the pod may lack more than room on cards.
        if !victims.is_empty() && (scheduler_evicts || !fits) {
            let patience = if scheduler_evicts {
                SCHEDULER_TAKES_MILLIS
            } else {
                0
            };
            let from = live.record.since.saturating_add(patience);
            if from > now.millis {
                return Next::At(now.when(from));
            }
            return live.evictions.then(Step::Evict { victims, node }, at);
        }
        if fits {
            return live.wakes.then(Step::Wake { node }, at);
        }
        let Some(gone_by) = gone_by else {
            return self.without_anybody_going(pod, now);
        };
        let known = self.pods.get(pod.as_str());
        if known.and_then(|known| known.preemption.nominated.as_ref()) != Some(&node) {
            return live.nominations.then(Step::Nominate { node }, at);
        }
        Next::At(now.when(gone_by))
    }

    /// No pod on the claimed cards is ending. Waits if another preemption will evict one of them;
    /// otherwise gives up.
    fn without_anybody_going(&self, pod: &PodUid, now: Now) -> Next {
        let mut stuck = false;
        for (holder, known) in self.holders(pod) {
            if self.is_victim_of_another(holder, pod) && !known.is_stuck(now) {
                return Next::Wait;
            }
            stuck |= known.is_stuck(now);
        }
        let reason = if stuck { Reason::Stuck } else { Reason::NoRoom };
        Next::Do(Step::GiveUp(reason))
    }

    fn is_victim_of_another(&self, victim: &PodUid, preemptor: &PodUid) -> bool {
        let mut others = self.preemptions.live.iter();
        others.any(|(pod, other)| pod != preemptor && other.record.victims.contains(victim))
    }

    pub(crate) fn fits_there(&self, pod: &PodUid, node: &NodeName) -> bool {
        self.fits_within(pod, node, &Steps::for_request())
    }

    /// Like [`Self::fits_there`], for one of many nodes, which share the steps.
    pub(crate) fn fits_within(&self, pod: &PodUid, node: &NodeName, steps: &Steps) -> bool {
        let ask = self.pods.get(pod.as_str()).map(|known| &known.ask);
        ask.is_some_and(|ask| {
            let search = self.ledger.search(ask, steps);
            self.ledger.fit(node.as_str(), pod, &search).is_ok()
        })
    }

    /// Whether the victim must still be evicted for the pod: between two evictions everything may
    /// change.
    pub fn must_go(&self, victim: &PodUid, pod: &PodUid) -> bool {
        let live = self.preemptions.live.get(pod);
        live.is_some_and(|live| {
            let mut left = self.victims_left(pod, live).into_iter();
            left.any(|left| left.uid == *victim)
        })
    }

    /// The victims that are not ending yet. Whatever the claim says, no victim is evicted for a pod
    /// that does not outrank it.
    fn victims_left(&self, pod: &PodUid, live: &Preemption) -> Vec<PodRef> {
        let preemptor = self.pods.get(pod.as_str());
        let Some(preemptor) = preemptor.filter(|known| known.preemption.preempts) else {
            return Vec::new();
        };
        let left = |victim: &&PodUid| {
            let booking = self.ledger.booking(victim.as_str());
            let here = booking.is_some_and(|booking| booking.node == *live.record.node());
            let known = self.pods.get(victim.as_str());
            here && known.is_some_and(|known| {
                known.preemption.ends_by.is_none() && known.rank < preemptor.rank
            })
        };
        let victims = live.record.victims.iter().filter(left);
        victims
            .filter_map(|victim| self.pods.reference(victim))
            .collect()
    }

    /// The pods that hold a part of the claimed cards.
    fn holders(&self, pod: &PodUid) -> impl Iterator<Item = (&PodUid, &KnownPod)> {
        let claim = self.ledger.claimed(pod.as_str());
        claim.into_iter().flat_map(move |claim| {
            let view = self.ledger.node(claim.node.as_str());
            let cards = claim.placement.cards();
            let bookings = view.into_iter().flat_map(NodeView::bookings);
            bookings
                .filter(move |(_, booking)| {
                    let mut held = booking.charges().keys();
                    held.any(|card| cards.contains(&card))
                })
                .filter_map(|(pod, _)| Some((pod, &**self.pods.get(pod.as_str())?)))
        })
    }
}

impl Preemption {
    pub(super) fn write(&self) -> Step {
        Step::Write {
            record: self.record.encode(),
            node: self.record.node().clone(),
        }
    }

    fn finish(&mut self, step: &Step, outcome: Outcome, now: Instant) {
        self.busy = false;
        match step {
            Step::Write { .. } if outcome == Outcome::Done => self.written = true,
            Step::Write { .. } => self.writes.note(now),
            Step::Evict { .. } => self.evictions.note(now),
            Step::Nominate { .. } => self.nominations.note(now),
            Step::Wake { .. } => self.wakes.note(now),
            Step::Clear | Step::GiveUp(_) => {}
        }
    }
}

impl Next {
    /// Looks again at this moment at the latest, even if nothing happens before.
    fn at_latest(self, moment: Instant) -> Self {
        match self {
            Self::Do(step) => Self::Do(step),
            Self::At(other) => Self::At(other.min(moment)),
            Self::Wait => Self::At(moment),
        }
    }
}

impl Repeated {
    fn then(&self, step: Step, now: Instant) -> Next {
        self.pauses_until(now).map_or(Next::Do(step), Next::At)
    }
}

impl EndedClaim {
    fn next(&self, now: Instant) -> Next {
        if self.busy || self.cleared {
            return Next::Wait;
        }
        self.clears.then(Step::Clear, now)
    }

    fn finish(&mut self, step: &Step, outcome: Outcome, now: Instant) {
        self.busy = false;
        match (step, outcome) {
            (Step::Clear, Outcome::Done) => self.cleared = true,
            (Step::Clear, _) => self.clears.note(now),
            _ => {}
        }
    }
}
