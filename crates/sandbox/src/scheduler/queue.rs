//! Which pod is tried next: by priority, then by age; refused pods wait. Pure, with the time as an argument.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

/// As in kube-scheduler, the pause doubles from one second to ten.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A waiting pod is retried after this long in any case, in case a change was missed.
const FORGOTTEN: Duration = Duration::from_mins(5);

/// What made a pod wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Totals that the scheduler itself counts: the pod may fit when something changes.
    Totals,
    /// Only the extender refused: the pod is retried when it changes, which is how the extender wakes it.
    Extender,
    /// Something went wrong.
    Error,
}

type Rank = (Reverse<i32>, u64, String);

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    /// The order of arrival.
    number: u64,
    attempts: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Ready,
    Pausing {
        until: Instant,
    },
    /// The pod is being tried; `moves` is the queue's counter when that began.
    Tried {
        moves: u64,
        changed: bool,
    },
    Waiting {
        cause: Cause,
        until: Instant,
    },
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    entries: BTreeMap<String, Entry>,
    ready: BTreeSet<Rank>,
    arrivals: u64,
    /// How often something has changed that could help a waiting pod.
    moves: u64,
    speed: u32,
}

fn priority(pod: &Pod) -> i32 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.priority)
        .unwrap_or(0)
}

/// Whether a pod changed in a way for which a scheduler retries it.
fn differs(one: &Pod, other: &Pod) -> bool {
    one.spec != other.spec
        || one.metadata.annotations != other.metadata.annotations
        || one.metadata.labels != other.metadata.labels
}

impl Queue {
    /// Pauses are divided by `speed`.
    pub(super) fn new(speed: u32) -> Self {
        Self {
            speed: speed.max(1),
            ..Self::default()
        }
    }

    /// Adds or updates a pod that waits for a node.
    pub(super) fn offer(&mut self, pod: Arc<Pod>, now: Instant) {
        let uid = pod.uid().unwrap_or_default();
        let Some(entry) = self.entries.get_mut(&uid) else {
            self.arrivals += 1;
            let entry = Entry {
                pod,
                number: self.arrivals,
                attempts: 0,
                stage: Stage::Ready,
            };
            self.ready.insert(rank(&uid, &entry));
            self.entries.insert(uid, entry);
            return;
        };
        if !differs(&entry.pod, &pod) {
            entry.pod = pod;
            return;
        }
        self.ready.remove(&rank(&uid, entry));
        entry.pod = pod;
        match &mut entry.stage {
            Stage::Ready => {
                self.ready.insert(rank(&uid, entry));
            }
            Stage::Tried { changed, .. } => *changed = true,
            Stage::Pausing { .. } => {}
            Stage::Waiting { .. } => self.pause(&uid, now),
        }
    }

    pub(super) fn remove(&mut self, uid: &str) {
        if let Some(entry) = self.entries.remove(uid) {
            self.ready.remove(&rank(uid, &entry));
        }
    }

    /// The next pod to try.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        self.wake_due(now);
        let (_, _, uid) = self.ready.pop_first()?;
        let moves = self.moves;
        let entry = self.entries.get_mut(&uid)?;
        entry.attempts += 1;
        entry.stage = Stage::Tried {
            moves,
            changed: false,
        };
        Some(Arc::clone(&entry.pod))
    }

    /// Makes a pod wait that was tried but cannot be placed now.
    pub(super) fn refuse(&mut self, uid: &str, cause: Cause, now: Instant) {
        let (moves, forgotten) = (self.moves, FORGOTTEN / self.speed);
        let Some(entry) = self.entries.get_mut(uid) else {
            return;
        };
        let Stage::Tried {
            moves: then,
            changed,
        } = entry.stage
        else {
            return;
        };
        let helped = cause == Cause::Totals && moves > then;
        if changed || helped || cause == Cause::Error {
            self.pause(uid, now);
            return;
        }
        entry.stage = Stage::Waiting {
            cause,
            until: now + forgotten,
        };
    }

    /// Wakes pods that wait for room in the totals, because a change may help them.
    pub(super) fn stir(&mut self, now: Instant) {
        self.moves += 1;
        let helped: Vec<String> = self
            .entries
            .iter()
            .filter(|(_, entry)| {
                matches!(
                    entry.stage,
                    Stage::Waiting {
                        cause: Cause::Totals,
                        ..
                    }
                )
            })
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in helped {
            self.pause(&uid, now);
        }
    }

    /// When the next pod is due even if nothing changes.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let stages = self.entries.values().map(|entry| entry.stage);
        let due = stages.filter_map(|stage| match stage {
            Stage::Pausing { until } | Stage::Waiting { until, .. } => Some(until),
            Stage::Ready | Stage::Tried { .. } => None,
        });
        due.min()
    }

    fn pause(&mut self, uid: &str, now: Instant) {
        let speed = self.speed;
        if let Some(entry) = self.entries.get_mut(uid) {
            let doublings = entry.attempts.saturating_sub(1).min(8);
            let pause = (FIRST_PAUSE * 2_u32.pow(doublings)).min(LONGEST_PAUSE) / speed;
            entry.stage = Stage::Pausing { until: now + pause };
        }
    }

    fn wake_due(&mut self, now: Instant) {
        for (uid, entry) in &mut self.entries {
            let (Stage::Pausing { until } | Stage::Waiting { until, .. }) = entry.stage else {
                continue;
            };
            if until <= now {
                entry.stage = Stage::Ready;
                self.ready.insert(rank(uid, entry));
            }
        }
    }
}

fn rank(uid: &str, entry: &Entry) -> Rank {
    (Reverse(priority(&entry.pod)), entry.number, uid.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, priority: i32, woken: &str) -> Arc<Pod> {
        let metadata = json!({"name": uid, "uid": uid, "annotations": {"woken": woken}});
        let spec = json!({"priority": priority, "containers": []});
        Arc::new(serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap())
    }

    fn next(queue: &mut Queue, now: Instant) -> Option<String> {
        queue.pop(now).map(|pod| pod.name_any())
    }

    /// A queue whose only pod `a` is being tried.
    fn trying_a() -> (Queue, Instant) {
        let (mut queue, now) = (Queue::new(1), Instant::now());
        queue.offer(pod("a", 0, ""), now);
        assert!(next(&mut queue, now).is_some());
        (queue, now)
    }

    #[test]
    fn the_most_important_pod_is_first_and_then_the_oldest() {
        let (mut queue, now) = (Queue::new(1), Instant::now());
        for (uid, priority) in [("a", 0), ("b", 5), ("c", 0)] {
            queue.offer(pod(uid, priority, ""), now);
        }
        let order: Vec<_> = std::iter::from_fn(|| next(&mut queue, now)).collect();
        assert_eq!(order, ["b", "a", "c"]);
    }

    #[test]
    fn who_lacks_room_in_the_totals_waits_for_a_change_and_then_a_moment() {
        let (mut queue, now) = trying_a();
        queue.refuse("a", Cause::Totals, now);
        let later = now + Duration::from_mins(1);
        assert_eq!(next(&mut queue, later), None);
        queue.stir(later);
        assert_eq!(next(&mut queue, later), None);
        assert_eq!(next(&mut queue, later + FIRST_PAUSE).as_deref(), Some("a"));
    }

    #[test]
    fn who_was_refused_by_the_extender_alone_waits_until_the_extender_wakes_it() {
        let (mut queue, now) = trying_a();
        queue.refuse("a", Cause::Extender, now);
        queue.stir(now);
        queue.offer(pod("a", 0, ""), now);
        assert_eq!(next(&mut queue, now + Duration::from_mins(1)), None);
        queue.offer(pod("a", 0, "now"), now);
        assert_eq!(next(&mut queue, now + FIRST_PAUSE).as_deref(), Some("a"));
    }

    #[test]
    fn a_change_during_the_attempt_is_not_lost() {
        let (mut queue, now) = trying_a();
        queue.offer(pod("a", 0, "now"), now);
        queue.refuse("a", Cause::Extender, now);
        assert_eq!(next(&mut queue, now + FIRST_PAUSE).as_deref(), Some("a"));
        queue.stir(now);
        queue.refuse("a", Cause::Totals, now);
        assert_eq!(next(&mut queue, now + LONGEST_PAUSE).as_deref(), Some("a"));
    }

    #[test]
    fn nothing_is_forgotten_for_good() {
        let (mut queue, now) = trying_a();
        queue.refuse("a", Cause::Extender, now);
        let due = queue.next_due().unwrap();
        assert_eq!(next(&mut queue, due).as_deref(), Some("a"));
    }
}
