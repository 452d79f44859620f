//! Carries out the plan. Each round does a limited number of actions, and each pod is independent of the others. A
//! failed action is retried with backoff.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use gpushare_core::PodUid;
use gpushare_kube::call::CallError;
use gpushare_kube::enforcement::{PatchOutcome, mark, open_gate};
use gpushare_kube::evict::{EvictionOutcome, evict};
use gpushare_kube::notice::{self, Notice};
use jiff::Timestamp;

use super::plan::{Action, What};
use super::say::{self, Say};
use super::{Enforcer, LOOK_EVERY};

const COMPONENT: &str = "gpushare-timekeeper";
/// The limits of one round. The next round plans again, and continues with what is left.
const MOST_ACTIONS: usize = 64;
const MOST_EVICTIONS: usize = 16;
const AT_ONCE: usize = 8;
/// An eviction requires the pod's resource version, until this many attempts in a row have failed because the pod had
/// changed.
const MOST_CHANGES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// What was tried on a pod.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    /// The pod as it was then.
    version: String,
    failures: u32,
    /// How many of the failures, counted back from the last one, came because the pod had changed.
    changes: u32,
    /// When to try again after a failure. `None` if nothing is to be done until the watch shows another version.
    pauses_until: Option<Instant>,
}

/// What became of an action.
#[derive(Clone, Copy)]
enum Outcome {
    Done(&'static str),
    Gone,
    /// The pod was not evicted, because its version is no longer the one for which the eviction was planned.
    Changed,
    Failed(&'static str),
}

impl Enforcer {
    /// Does what can be done now. Returns when to look again even if nothing happens.
    pub(super) async fn round(&self, term: u64) -> Option<Instant> {
        let planned = self.plan()?;
        let (actions, more) = self.due(planned.actions, Instant::now());
        stream::iter(actions)
            .for_each_concurrent(AT_ONCE, |action| self.carry_out(action, term))
            .await;
        let now = Instant::now();
        let attempts = self.attempts.lock();
        let paused = attempts.values().filter_map(|attempt| attempt.pauses_until);
        let look = planned.next.map(|_| now + LOOK_EVERY);
        paused.chain(look).chain(more.then_some(now)).min()
    }

    /// The actions that this round does, and whether more are due than one round may do.
    fn due(&self, planned: Vec<Action>, now: Instant) -> (Vec<Action>, bool) {
        let mut attempts = self.attempts.lock();
        let concerned: HashSet<&PodUid> = planned.iter().map(|action| &action.pod.id.uid).collect();
        attempts.retain(|pod, _| concerned.contains(pod));
        let (mut due, mut evictions, mut more) = (Vec::new(), 0, false);
        for action in planned {
            match attempts.get(&action.pod.id.uid) {
                Some(Attempt {
                    pauses_until: None,
                    version,
                    ..
                }) if *version == action.pod.version => continue,
                Some(Attempt {
                    pauses_until: Some(until),
                    ..
                }) if *until > now => continue,
                _ => {}
            }
            let evicts = usize::from(action.what == What::Evict);
            if due.len() >= MOST_ACTIONS || evictions + evicts > MOST_EVICTIONS {
                more = true;
                continue;
            }
            evictions += evicts;
            due.push(action);
        }
        (due, more)
    }

    async fn carry_out(&self, action: Action, term: u64) {
        if self.timekeeper.leadership().term() != Some(term) {
            return;
        }
        let outcome = match &action.what {
            What::Mark(_) | What::Open => self.change_pod(&action).await,
            What::Evict => self.evict(&action).await,
        };
        match outcome {
            Outcome::Done(label) => {
                self.timekeeper.0.metrics.enforced(label);
                self.note(&action, outcome);
                let Action { pod, say, .. } = &action;
                tracing::info!(
                    pod = %pod.id, uid = %pod.id.uid,
                    reason = say.reason, message = say.message, "{label}"
                );
                self.say(&action, say).await;
            }
            Outcome::Gone => self.note(&action, outcome),
            Outcome::Changed => {
                self.timekeeper.0.metrics.enforced("failed");
                self.note(&action, outcome);
            }
            Outcome::Failed(label) => {
                self.timekeeper.0.metrics.enforced(label);
                self.note(&action, outcome);
            }
        }
    }

    fn note(&self, action: &Action, outcome: Outcome) {
        let mut attempts = self.attempts.lock();
        let before = attempts.get(&action.pod.id.uid);
        let (failures, changes) = before.map_or((0, 0), |one| (one.failures, one.changes));
        let failed = matches!(outcome, Outcome::Changed | Outcome::Failed(_));
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(10));
        let attempt = Attempt {
            version: action.pod.version.clone(),
            failures: if failed {
                failures.saturating_add(1)
            } else {
                0
            },
            changes: match outcome {
                Outcome::Changed => changes.saturating_add(1),
                _ => 0,
            },
            pauses_until: failed.then(|| Instant::now() + pause.min(LONGEST_PAUSE)),
        };
        attempts.insert(action.pod.id.uid.clone(), attempt);
    }

    async fn change_pod(&self, action: &Action) -> Outcome {
        let (client, pod) = (self.timekeeper.client(), &action.pod.id);
        let (changed, label): (Result<PatchOutcome, CallError>, _) = match &action.what {
            What::Mark(marks) if marks.over.is_some() => {
                (mark(client, pod, marks).await, "demoted")
            }
            What::Mark(marks) => (mark(client, pod, marks).await, "restored"),
            _ => (open_gate(client, pod).await, "opened"),
        };
        match changed {
            Ok(PatchOutcome::Done) => Outcome::Done(label),
            Ok(PatchOutcome::Gone) => Outcome::Gone,
            Err(error) => {
                tracing::warn!(%error, "a budget is not enforced yet; trying again");
                Outcome::Failed("failed")
            }
        }
    }

    /// When a pod is no longer to be evicted, its marks are removed, which changes its version. An eviction that still
    /// requires the old version has no effect, however late it arrives. Only changes of the pod can make an eviction
    /// require no version. Other failures cannot, because they are the cases in which a request may arrive late: when
    /// the network is bad, or when the check of a disruption budget takes long.
    async fn evict(&self, action: &Action) -> Outcome {
        let pod = &action.pod;
        let changes = self.attempts.lock().get(&pod.id.uid).map(|one| one.changes);
        // A tenant cannot prevent the eviction by changing the pod all the time.
        let names_version = changes.unwrap_or(0) < MOST_CHANGES;
        let version = Some(pod.version.as_str()).filter(|_| names_version);
        match evict(self.timekeeper.client(), &pod.id, version).await {
            Ok(EvictionOutcome::Ending) => Outcome::Done("evicted"),
            Ok(EvictionOutcome::Gone) => Outcome::Gone,
            // The watch soon shows the new version, and the action is planned again.
            Ok(EvictionOutcome::Changed) => Outcome::Changed,
            Ok(EvictionOutcome::Protected(why)) => {
                self.say(action, &say::blocked(&why)).await;
                Outcome::Failed("protected")
            }
            Err(error) => {
                tracing::warn!(%error, "a budget is not enforced yet; trying again");
                Outcome::Failed("failed")
            }
        }
    }

    async fn say(&self, action: &Action, say: &Say) {
        let notice = Notice {
            pod: action.pod.id.clone(),
            reason: say.reason,
            severity: say.severity,
            message: say.message.clone(),
        };
        let now = Timestamp::now();
        let posted = notice::post_as(COMPONENT, self.timekeeper.client(), &notice, 1, now);
        if let Err(error) = posted.await {
            tracing::warn!(%error, "a budget is enforced unsaid");
        }
    }
}
