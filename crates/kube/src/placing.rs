//! kube-scheduler's rules about one pod and one node: the cordon, taints, node selectors and node affinity. Pure.
//!
//! They are the rules of version 1.36 with its default feature gates, including what it does with objects that the API
//! server would refuse today. As in kube-scheduler, a demand that is not valid is not met. What a pod requests of a
//! node's totals is in [`totals`](crate::totals).

use std::collections::BTreeMap;
use std::iter;

use k8s_openapi::api::core::v1::{Affinity, Node, NodeSelector, PodSpec, Taint, Toleration};

mod affinity;
mod taints;

/// The key of the taint that stands for a cordon (`spec.unschedulable`). A pod that tolerates it tolerates the cordon.
pub const CORDON: &str = "node.kubernetes.io/unschedulable";

/// What a pod demands of a node besides resources.
#[derive(Clone, Copy, Debug)]
pub struct Demands<'a> {
    selector: Option<&'a BTreeMap<String, String>>,
    affinity: Option<&'a NodeSelector>,
    tolerations: &'a [Toleration],
}

/// What matters of a node besides its resources.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    pub name: &'a str,
    pub labels: Option<&'a BTreeMap<String, String>>,
    pub taints: &'a [Taint],
    pub cordoned: bool,
}

/// Why a pod cannot go to a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Obstacle<'a> {
    Cordoned,
    /// A taint that the pod does not tolerate.
    Taint(&'a Taint),
    /// A label of `spec.nodeSelector` that the node lacks.
    Label {
        key: &'a str,
        value: &'a str,
    },
    /// The node is not one that the pod's affinity requires.
    Affinity,
}

/// Everything that keeps the pod off the node, in the order in which kube-scheduler looks for it.
pub fn obstacles<'a>(
    demands: Demands<'a>,
    site: Site<'a>,
) -> impl Iterator<Item = Obstacle<'a>> + use<'a> {
    let cordon = (site.cordoned && !taints::is_cordon_tolerated(demands.tolerations))
        .then_some(Obstacle::Cordoned);
    let untolerated = taints::untolerated(site.taints, demands.tolerations);
    let label = move |key: &str| site.labels?.get(key).map(String::as_str);
    let selected = demands.selector.into_iter().flatten();
    let missing = selected
        .filter(move |(key, value)| label(key) != Some(value))
        .map(|(key, value)| Obstacle::Label { key, value });
    let excluded = move || {
        let excluded = |required| !affinity::matches(required, site.name, label);
        let excluded = demands.affinity.is_some_and(excluded);
        excluded.then_some(Obstacle::Affinity)
    };
    cordon
        .into_iter()
        .chain(untolerated.map(Obstacle::Taint))
        .chain(missing)
        .chain(iter::once_with(excluded).flatten())
}

impl Obstacle<'_> {
    /// The reason in kube-scheduler's words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cordoned => "node(s) were unschedulable",
            Self::Taint(_) => "node(s) had untolerated taint(s)",
            Self::Label { .. } | Self::Affinity => {
                "node(s) didn't match Pod's node affinity/selector"
            }
        }
    }
}

/// kube-scheduler's message about a pod that fits on none of the nodes, from the reasons of them all:
/// `0/5 nodes are available: 2 node(s) were unschedulable, 3 Insufficient cpu.`
pub fn refusal<'a>(nodes: usize, reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_default() += 1;
    }
    let counted = counts.iter();
    let mut counted: Vec<String> = counted
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    counted.sort();
    format!("0/{nodes} nodes are available: {}.", counted.join(", "))
}

impl<'a> Demands<'a> {
    pub fn new(
        selector: Option<&'a BTreeMap<String, String>>,
        affinity: Option<&'a Affinity>,
        tolerations: &'a [Toleration],
    ) -> Self {
        let nodes = affinity.and_then(|affinity| affinity.node_affinity.as_ref());
        Self {
            selector,
            affinity: nodes.and_then(|nodes| {
                nodes
                    .required_during_scheduling_ignored_during_execution
                    .as_ref()
            }),
            tolerations,
        }
    }
}

impl<'a> From<&'a PodSpec> for Demands<'a> {
    fn from(spec: &'a PodSpec) -> Self {
        Self::new(
            spec.node_selector.as_ref(),
            spec.affinity.as_ref(),
            spec.tolerations.as_deref().unwrap_or_default(),
        )
    }
}

impl<'a> From<&'a Node> for Site<'a> {
    fn from(node: &'a Node) -> Self {
        let spec = node.spec.as_ref();
        let taints = spec.and_then(|spec| spec.taints.as_deref());
        Self {
            name: node.metadata.name.as_deref().unwrap_or_default(),
            labels: node.metadata.labels.as_ref(),
            taints: taints.unwrap_or_default(),
            cordoned: spec.and_then(|spec| spec.unschedulable) == Some(true),
        }
    }
}

#[cfg(test)]
mod tests;
