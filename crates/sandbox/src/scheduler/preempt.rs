//! Which pods the scheduler itself would evict: if the totals of a node do not suffice, pods of lower priority, as few
//! as possible. Pure. If the pod requests cards, the extender judges the result before any pod is evicted.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;

use super::cluster::{Cluster, PlacedPod};
use super::extender::Victims;
use super::fit;

pub(super) fn priority(pod: &Pod) -> i32 {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.priority)
        .unwrap_or(0)
}

/// Whether the pod may preempt others and is not already waiting for victims to end.
pub(super) fn may_preempt(pod: &Pod, cluster: &Cluster) -> bool {
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        return false;
    }
    let status = pod.status.as_ref();
    let Some(node) = status.and_then(|status| status.nominated_node_name.as_ref()) else {
        return true;
    };
    let mut there = cluster.on_node(node);
    !there.any(|placed| {
        placed.pod.metadata.deletion_timestamp.is_some() && priority(&placed.pod) < priority(pod)
    })
}

/// The victims on each of these nodes, as far as evictions help there.
pub(super) fn candidates(
    pod: &Pod,
    cluster: &Cluster,
    nodes: &[String],
    budgets: &[std::sync::Arc<PodDisruptionBudget>],
) -> BTreeMap<String, Victims> {
    let mut found = BTreeMap::new();
    for node in nodes {
        if let Some(victims) = victims(pod, cluster, node, budgets) {
            found.insert(node.clone(), victims);
        }
    }
    found
}

fn victims(
    pod: &Pod,
    cluster: &Cluster,
    node: &str,
    budgets: &[std::sync::Arc<PodDisruptionBudget>],
) -> Option<Victims> {
    let asked = fit::requests(pod);
    let mut host = cluster.host(node)?.clone();
    let mut lower: Vec<&PlacedPod> = cluster
        .on_node(node)
        .filter(|placed| priority(&placed.pod) < priority(pod))
        .collect();
    for placed in &lower {
        fit::take(&mut host.taken, placed.asked());
    }
    if fit::obstacle(pod, &asked, &host).is_some() {
        return None;
    }
    // Pods of higher priority are spared first, and among equals the oldest.
    lower.sort_by_key(|placed| {
        let created = placed.pod.metadata.creation_timestamp.as_ref();
        (
            -i64::from(priority(&placed.pod)),
            created.map(|time| time.0),
        )
    });
    let mut victims = Victims::default();
    for placed in lower {
        fit::add(&mut host.taken, placed.asked());
        if fit::obstacle(pod, &asked, &host).is_some() {
            fit::take(&mut host.taken, placed.asked());
            victims.uids.push(placed.pod.uid().unwrap_or_default());
            victims.violations += i64::from(is_protected(&placed.pod, budgets));
        }
    }
    (!victims.uids.is_empty()).then_some(victims)
}

fn is_protected(pod: &Pod, budgets: &[std::sync::Arc<PodDisruptionBudget>]) -> bool {
    budgets.iter().any(|budget| {
        let allowed = budget
            .status
            .as_ref()
            .and_then(|status| status.disruptions_allowed);
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let labels = selector.and_then(|selector| selector.match_labels.as_ref());
        allowed.unwrap_or(0) <= 0
            && budget.namespace() == pod.namespace()
            && labels.is_some_and(|labels| {
                labels
                    .iter()
                    .all(|(key, value)| pod.labels().get(key) == Some(value))
            })
    })
}

/// The node with the least harm: violated disruption budgets, then the highest priority of a victim, then their number.
pub(super) fn best(
    offers: BTreeMap<String, Victims>,
    cluster: &Cluster,
) -> Option<(String, Victims)> {
    let highest = |victims: &Victims| {
        let pods = victims.uids.iter().filter_map(|uid| cluster.pod(uid));
        pods.map(|pod| priority(pod)).max()
    };
    offers
        .into_iter()
        .min_by_key(|(_, victims)| (victims.violations, highest(victims), victims.uids.len()))
}
