//! Whether a pod fits on a node, by the rules of kube-scheduler ([`placing`] and [`totals`]). Pure.

use std::sync::Arc;

use gpushare_kube::placing;
use gpushare_kube::totals::{self, StatedResources, Totals};
use k8s_openapi::api::core::v1::{Node, Pod};

/// Why a pod does not fit on a node, and whether evictions could change that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Obstacle {
    pub(super) reasons: Vec<String>,
    pub(super) evictable: bool,
}

/// A node and what is taken on it.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) node: Arc<Node>,
    pub(super) room: Totals,
    pub(super) taken: Totals,
}

pub(super) fn requests(pod: &Pod) -> Totals {
    let stated = pod.spec.as_ref().map(StatedResources::from);
    stated.unwrap_or_default().requests()
}

pub(super) fn add(sum: &mut Totals, more: &Totals) {
    for (name, amount) in more {
        let entry = sum.entry(name.clone()).or_default();
        *entry = entry.saturating_add(*amount);
    }
}

pub(super) fn take(sum: &mut Totals, less: &Totals) {
    for (name, amount) in less {
        if let Some(entry) = sum.get_mut(name) {
            *entry = entry.saturating_sub(*amount).max(0);
        }
    }
}

/// What kube-scheduler finds first: one reason that concerns the node itself, or everything that it lacks.
pub(super) fn obstacle(pod: &Pod, asked: &Totals, host: &Host) -> Option<Obstacle> {
    let spec = pod.spec.as_ref()?;
    let mut obstacles = placing::obstacles(spec.into(), (&*host.node).into());
    if let Some(found) = obstacles.next() {
        return Some(Obstacle {
            reasons: vec![found.reason().to_owned()],
            evictable: false,
        });
    }
    let of = |totals: &Totals, resource: &str| totals.get(resource).copied().unwrap_or(0);
    let free = |resource: &str| {
        let taken = of(&host.taken, resource);
        of(&host.room, resource).saturating_sub(taken)
    };
    let short: Vec<(&String, i64)> = totals::lacking(asked, free).collect();
    let possible = |(resource, needed): &(&String, i64)| *needed <= of(&host.room, resource);
    (!short.is_empty()).then(|| Obstacle {
        evictable: short.iter().all(possible),
        reasons: short.iter().map(|(name, _)| totals::reason(name)).collect(),
    })
}

#[cfg(test)]
mod tests;
