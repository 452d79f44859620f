//! What is to be done on pods because of their budgets, computed from what is known now.
//!
//! Pure, and without state: what was done is recorded on the pods. So a restarted process or the next leader computes
//! the same plan.

use std::collections::BTreeMap;

use gpushare_kube::enforcement::{Marks, Stage, Subject};
use gpushare_kube::gpu_budget::select::{Choice, choose};
use gpushare_kube::gpu_budget::{GpuBudget, WhenExhausted};
use gpushare_kube::labels::Labels;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::gates;
use super::say::{self, Say};

/// A pod that was created over budget runs for at least this long. Its controller recreates it as soon as it is gone,
/// so without this limit it would be evicted and recreated without a pause.
const LEAST_RUN: SignedDuration = SignedDuration::from_mins(1);

/// What is known of the cluster.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    pub budgets: &'a BTreeMap<String, GpuBudget>,
    /// Labels by name.
    pub namespaces: &'a BTreeMap<String, Labels>,
    pub pods: Vec<Subject>,
}

/// Actions in the order in which they are to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// When the next eviction is due, even if nothing changes until then.
    pub next: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub pod: Subject,
    pub what: What,
    /// The Event for the pod's owner, posted when the action is done.
    pub say: Say,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Replaces the pod's marks by these.
    Mark(Marks),
    /// Removes the scheduling gate, so that the scheduler considers the pod.
    Open,
    Evict,
}

/// The budget that pays for a namespace, if any.
pub(super) type Payer<'a> = Option<&'a GpuBudget>;

/// Whether nothing remains of the budget or of one of its ancestors.
pub(super) fn is_exhausted(budget: &GpuBudget) -> bool {
    let status = budget.status.as_ref();
    status.is_some_and(|status| status.exhausted)
}

/// What is to be done now.
pub fn plan(cluster: &Cluster<'_>, now: Timestamp) -> Plan {
    let payers = payers(cluster);
    let mut pods: Vec<(&Subject, Payer<'_>)> = cluster
        .pods
        .iter()
        .filter(|pod| !pod.ending)
        // A namespace that the watch has not shown may have a budget.
        .filter_map(|pod| Some((pod, *payers.get(pod.id.namespace.as_str())?)))
        .collect();
    pods.sort_by_key(|(pod, _)| (pod.created, &pod.id.uid));
    let (waiting, live): (Vec<_>, Vec<_>) = pods
        .into_iter()
        .partition(|(pod, _)| pod.stage == Stage::Waits);

    let (mut marks, mut evictions) = (Vec::new(), Vec::new());
    let mut next: Option<Timestamp> = None;
    for (pod, payer) in &live {
        let marked = marked(pod, *payer, now);
        if marked != pod.marks {
            marks.push(Action {
                say: say::marked(pod, &marked, *payer),
                pod: (*pod).clone(),
                what: What::Mark(marked),
            });
            continue;
        }
        match marked.evict_at {
            Some(at) if at <= now => evictions.push((at, pod, payer)),
            Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
            None => {}
        }
    }
    evictions.sort_by_key(|(at, ..)| *at);
    let evictions = evictions.into_iter().map(|(_, pod, payer)| Action {
        say: say::evicted(*payer),
        pod: (*pod).clone(),
        what: What::Evict,
    });
    let opened = gates::to_open(cluster.budgets, &live, &waiting);
    let opened = opened.into_iter().map(|(pod, payer)| Action {
        say: say::opened(payer),
        pod: pod.clone(),
        what: What::Open,
    });
    let actions = marks.into_iter().chain(opened).chain(evictions).collect();
    Plan { actions, next }
}

fn payers<'a>(cluster: &Cluster<'a>) -> BTreeMap<&'a str, Payer<'a>> {
    let payer = |(name, labels): (&'a String, &'a Labels)| {
        let payer = match choose(cluster.budgets.values(), name, labels) {
            Choice::Budget(budget) => Some(budget),
            Choice::Unbudgeted | Choice::Ambiguous(_) => None,
        };
        (name.as_str(), payer)
    };
    cluster.namespaces.iter().map(payer).collect()
}

/// The marks that a pod without a gate should have.
fn marked(pod: &Subject, payer: Payer<'_>, now: Timestamp) -> Marks {
    let Some(budget) = payer.filter(|budget| is_exhausted(budget)) else {
        return Marks {
            restored: pod.low_class,
            ..Marks::default()
        };
    };
    let evicts = budget.spec.when_exhausted == WhenExhausted::EvictWithGrace;
    Marks {
        over: Some(budget.name_any()),
        restored: false,
        evict_at: (evicts && pod.stage == Stage::Placed).then(|| evict_at(pod, budget, now)),
    }
}

/// The time of the eviction. The grace period begins when this time is first written to the pod. After that, the time
/// does not change.
fn evict_at(pod: &Subject, budget: &GpuBudget, now: Timestamp) -> Timestamp {
    if let Some(told) = pod.marks.evict_at {
        return told;
    }
    let grace = SignedDuration::from_secs(budget.spec.grace_seconds.unwrap_or(0).max(0));
    let grace = if pod.low_class {
        grace.max(LEAST_RUN)
    } else {
        grace
    };
    // Whole seconds, so that what is written reads back the same.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    now.saturating_add(grace).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
