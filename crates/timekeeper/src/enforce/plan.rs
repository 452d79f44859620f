//! What is to be done on pods because of their budgets, read off what is known now.
//!
//! Pure, and without memory: what was done stands on the pods, so whoever looks next, after a restart or as the
//! next leader, finds the same to be left.

use std::collections::BTreeMap;

use gpushare_kube::enforcement::{Marks, Stage, Subject};
use gpushare_kube::gpu_budget::select::{Choice, choose};
use gpushare_kube::gpu_budget::{GpuBudget, WhenExhausted};
use gpushare_kube::labels::Labels;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::gates;
use super::say::{self, Say};

/// A pod that was created over budget runs for this long at least: its controller creates it again as soon as it has
/// gone, and would do so without end.
const LEAST_RUN: SignedDuration = SignedDuration::from_mins(1);

/// What is known of the cluster.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    pub budgets: &'a BTreeMap<String, GpuBudget>,
    /// Labels by name.
    pub namespaces: &'a BTreeMap<String, Labels>,
    pub pods: Vec<Subject>,
}

/// In the order in which it is to be done.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// When there is something to be done even if nothing happens.
    pub next: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub pod: Subject,
    pub what: What,
    /// What the pod's owner is told when it is done.
    pub say: Say,
}

#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// Lets exactly these marks stand on the pod.
    Mark(Marks),
    /// Lets the scheduler look at it.
    Open,
    Evict,
}

/// The budget that pays for a namespace; nothing if none does.
pub(super) type Payer<'a> = Option<&'a GpuBudget>;

/// Nothing remains of it, or of one that it is a part of.
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

/// What is to stand on a pod that does not wait.
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

/// The grace begins when the pod is told, and what it was told holds.
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
