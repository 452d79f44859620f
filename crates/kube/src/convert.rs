//! Kubernetes objects to core values.

use gpushare_core::card::Card;
use gpushare_core::dialect::Dialects;
use gpushare_core::inventory::{self, InventoryError};
use gpushare_core::ledger::Bound;
use gpushare_core::names;
use gpushare_core::record::{Record, RecordError};
use gpushare_core::request::{PodAsk, Role};
use gpushare_core::validate::{ContainerView, Violations, validate};
use gpushare_core::{DeviceClass, NodeName, PodUid};

use crate::slim;

/// What gpushare knows of a pod: read once at the edge, then only values.
#[derive(Clone, Debug)]
pub struct PodFacts {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
    pub node: Option<NodeName>,
    /// The containers have ended for good; nothing of the card is held any more.
    pub ended: bool,
    /// What the pod asks for, nothing, or everything that is wrong with it.
    pub ask: Result<Option<PodAsk>, Violations>,
    record: Option<String>,
}

impl PodFacts {
    pub fn new(pod: &slim::Pod, dialects: &Dialects) -> Self {
        let meta = &pod.metadata;
        let annotations = meta.annotations.as_ref();
        Self {
            uid: PodUid::new(meta.uid.as_deref().unwrap_or_default()),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            node: pod
                .spec
                .node_name
                .as_deref()
                .filter(|name| !name.is_empty())
                .map(NodeName::new),
            ended: matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            ask: validate(dialects, &containers(&pod.spec)),
            record: annotations
                .and_then(|all| all.get(names::ALLOCATION))
                .cloned(),
        }
    }

    /// The booking that the pod's record proves. Nothing when the pod is not bound, asks for nothing or
    /// carries no record; an error when its record cannot be believed.
    pub fn bound(&self, class: &DeviceClass) -> Option<Result<Bound, RecordError>> {
        let node = self.node.as_ref()?;
        let ask = self.ask.as_ref().ok()?.as_ref()?;
        let record = self.record.as_deref()?;
        let verified = Record::decode(record)
            .and_then(|record| record.verify(&self.uid, node, class, ask))
            .map(|placement| Bound {
                pod: self.uid.clone(),
                node: node.clone(),
                ask: ask.clone(),
                placement,
            });
        Some(verified)
    }

    /// The record as it stands in the annotation, believed or not.
    pub fn record(&self) -> Option<&str> {
        self.record.as_deref()
    }
}

/// A pod's containers in the order in which they start.
fn containers(spec: &slim::PodSpec) -> Vec<ContainerView<'_>> {
    let init = spec.init_containers.iter().map(|container| {
        let sidecar = container.restart_policy.as_deref() == Some("Always");
        (container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    let apps = spec
        .containers
        .iter()
        .map(|container| (container, Role::App));
    init.chain(apps)
        .map(|(container, role)| ContainerView {
            name: &container.name,
            role,
            limits: container
                .resources
                .limits
                .iter()
                .map(|(name, value)| (name.as_str(), value.0.as_str()))
                .collect(),
        })
        .collect()
}

/// The cards that a node's agent published; nothing when it has published none.
pub fn cards(node: &slim::Node, class: &DeviceClass) -> Result<Option<Vec<Card>>, InventoryError> {
    let annotations = node.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(names::CARDS))
        .map(|text| inventory::decode(class, text))
        .transpose()
}

#[cfg(test)]
mod tests;
