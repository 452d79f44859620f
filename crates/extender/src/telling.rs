//! Telling owners why their pods wait: one Event on each refused pod, kept up to date.
//!
//! The Event that kube-scheduler writes lists a reason for each group of nodes; this one sums them up. It is written
//! in the background, never within a request of the scheduler, and not at all for pods that are refused for a moment
//! only.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gpushare_books::{KnownPod, NodeSet};
use gpushare_core::explain::Explanation;
use gpushare_core::names::event;
use gpushare_core::{PodAsk, PodUid};
use gpushare_kube::call::CallError;
use gpushare_kube::notice::{self, Notice, Severity};

use super::Extender;

/// Time between two checks for pods whose Event is due.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A pod that has been refused for less than this gets no Event: it may be bound by the time its owner looks.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the first Event may be out of date. Each later one may be out of date twice as long as the one before,
/// because the numbers in it change all the time in a busy cluster.
const UP_TO_DATE: Duration = Duration::from_secs(5);
const LONGEST_BEHIND: Duration = Duration::from_mins(5);
/// How long until an unchanged Event is written again. By default, Kubernetes deletes Events after an hour.
const SAY_AGAIN: Duration = Duration::from_mins(30);
/// How many Events one check writes at most, and how many different explanations it computes, each of which examines
/// every node.
const MOST_EVENTS: usize = 50;
const MOST_EXPLANATIONS: usize = 10;

/// What was last reported about a pod.
#[derive(Debug)]
struct Said {
    message: String,
    at: Instant,
    /// When the message was last known to be correct.
    checked: Instant,
    times: u32,
}

impl Said {
    /// Whether it is time to check the message again.
    fn is_due(&self, now: Instant) -> bool {
        let doublings = self.times.saturating_sub(1).min(16);
        let behind = UP_TO_DATE
            .saturating_mul(1 << doublings)
            .min(LONGEST_BEHIND);
        let since = |then: Instant| now.saturating_duration_since(then);
        since(self.at) >= behind && since(self.checked) >= UP_TO_DATE
    }
}

/// The explanations of one check. Pods with the same request often wait together, and share one.
#[derive(Default)]
struct Explained(Vec<(Arc<KnownPod>, Arc<NodeSet>, Arc<Explanation>)>);

impl Explained {
    fn find(&self, ask: &PodAsk, candidates: &NodeSet) -> Option<Arc<Explanation>> {
        let same = |(pod, nodes, _): &&(Arc<KnownPod>, Arc<NodeSet>, _)| {
            pod.ask == *ask && **nodes == *candidates
        };
        self.0.iter().find(same).map(|(_, _, known)| known.clone())
    }
}

impl Extender {
    pub(super) async fn tell_refused(self) -> Result<(), Infallible> {
        let shutdown = self.0.tasks.shutdown().clone();
        let work = async {
            let mut said = HashMap::new();
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                if self.leads().is_ok() {
                    self.tell_some(&mut said).await;
                }
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn tell_some(&self, said: &mut HashMap<PodUid, Said>) {
        let now = Instant::now();
        let due = self.due(said, now);
        let (mut explained, mut events) = (Explained::default(), 0);
        for (pod, candidates) in due {
            let known = explained.find(&pod.ask, &candidates);
            if events == MOST_EVENTS || (known.is_none() && explained.0.len() == MOST_EXPLANATIONS)
            {
                break;
            }
            let explanation = if let Some(known) = known {
                known
            } else {
                let Some(new) = self.explain_aside(&pod, &candidates).await else {
                    return;
                };
                explained.0.push((pod.clone(), candidates, new.clone()));
                new
            };
            // Room has appeared: the pod will be bound, or refused again.
            if explanation.fitting.count > 0 || explanation.nodes == 0 {
                continue;
            }
            match self.tell(&pod, &explanation.to_string(), said, now).await {
                Ok(posted) => events += usize::from(posted),
                Err(error) => {
                    tracing::warn!(%error, "cannot write the event that says why a pod waits");
                    break;
                }
            }
        }
    }

    /// Runs on a blocking thread, because it examines every node.
    async fn explain_aside(
        &self,
        pod: &Arc<KnownPod>,
        candidates: &Arc<NodeSet>,
    ) -> Option<Arc<Explanation>> {
        let (extender, pod, candidates) = (self.clone(), pod.clone(), candidates.clone());
        let work = move || {
            let nodes = extender.0.books.read().nodes().within(Some(&candidates));
            Arc::new(extender.explain(&pod.pod.uid, &pod.ask, &nodes))
        };
        let worked = tokio::task::spawn_blocking(work).await;
        worked
            .inspect_err(|error| tracing::error!(%error, "a pod could not be explained"))
            .ok()
    }

    /// Pods whose Event may need an update. Pods without an Event come first.
    fn due(
        &self,
        said: &mut HashMap<PodUid, Said>,
        now: Instant,
    ) -> Vec<(Arc<KnownPod>, Arc<NodeSet>)> {
        let Some(then) = now.checked_sub(PATIENCE) else {
            return Vec::new();
        };
        let books = self.0.books.read();
        said.retain(|pod, _| books.waiting().contains(pod));
        let refused = books.waiting().refused_since(then);
        drop(books);
        let mut due: BTreeMap<(Option<Instant>, usize), _> = BTreeMap::new();
        for (place, pod) in refused.into_iter().enumerate() {
            let before = said.get(&pod.0.pod.uid);
            if before.is_none_or(|before| before.is_due(now)) {
                due.insert((before.map(|before| before.checked), place), pod);
            }
        }
        due.into_values().collect()
    }

    /// Returns whether an event was written.
    async fn tell(
        &self,
        pod: &KnownPod,
        message: &str,
        said: &mut HashMap<PodUid, Said>,
        now: Instant,
    ) -> Result<bool, CallError> {
        let uid = &pod.pod.uid;
        let before = said.get_mut(uid);
        let times = before.as_ref().map_or(0, |before| before.times) + 1;
        if let Some(before) = before {
            before.checked = now;
            if before.message == message && now.saturating_duration_since(before.at) < SAY_AGAIN {
                return Ok(false);
            }
        }
        if !self.0.books.read().waiting().contains(uid) {
            return Ok(false);
        }
        let notice = Notice {
            pod: pod.pod.clone(),
            reason: event::NO_CARD_FITS,
            severity: Severity::Warning,
            message: message.to_owned(),
        };
        notice::post(&self.0.client, &notice, times, jiff::Timestamp::now()).await?;
        let now_said = Said {
            message: notice.message,
            at: now,
            checked: now,
            times,
        };
        said.insert(notice.pod.uid, now_said);
        Ok(true)
    }
}
