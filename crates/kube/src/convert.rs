//! Kubernetes objects to core values.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use gpushare_core::card::Card;
use gpushare_core::dialect::Dialects;
use gpushare_core::held::{self, HeldError, HeldPod};
use gpushare_core::inventory::{self, InventoryError};
use gpushare_core::ledger::BoundPod;
use gpushare_core::names;
use gpushare_core::preempt::{ClaimError, ClaimRecord, Rank};
use gpushare_core::record::{Record, RecordError};
use gpushare_core::request::{PodAsk, Role};
use gpushare_core::validate::{ContainerView, PodView, Violations, validate, validate_bound};
use gpushare_core::{Classes, Host, NodeName, Placement, PodUid};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::PodRef;
use crate::labels::Labels;
use crate::slim::{self, Starts};
use crate::totals::{CPU, MEMORY, StatedResources};

/// What gpushare knows of a pod: read once at the edge, then only values.
#[derive(Clone, Debug)]
pub struct PodFacts {
    pub uid: PodUid,
    pub namespace: String,
    pub name: String,
    /// Changes with every change of the pod.
    pub version: String,
    pub node: Option<NodeName>,
    /// The containers have ended for good; nothing of the card is held any more.
    pub ended: bool,
    /// Its deletion has begun. It keeps its cards until it has ended.
    pub deleting: bool,
    /// A scheduling gate keeps the scheduler from considering it.
    pub gated: bool,
    pub rank: Rank,
    pub preemption: PreemptionFacts,
    /// In seconds since 1970.
    pub created: i64,
    /// What the pod asks for, `None` if it asks for no devices, or everything that is wrong with the request. For a
    /// bound pod, only its containers' limits count, because they cannot be changed.
    pub ask: Result<Option<PodAsk>, Violations>,
    /// What the pod takes of its node besides cards.
    pub host: Host,
    record: Option<String>,
    claim: Option<String>,
}

/// What preemption takes into account besides the rank.
#[derive(Clone, Debug, Default)]
pub struct PreemptionFacts {
    /// Pods of lower rank may be evicted for it.
    pub preempts: bool,
    /// The deadline for its containers to end, if its deletion has begun; in seconds since 1970.
    pub ends_by: Option<i64>,
    /// In seconds since 1970. A pod that has not started yet counts as the newest.
    pub started: i64,
    /// Its containers have been started: disruption budgets count it.
    pub running: bool,
    pub labels: Labels,
    /// The node for which the scheduler or gpushare has nominated it.
    pub nominated: Option<NodeName>,
}

impl PodFacts {
    pub fn reference(&self) -> PodRef {
        PodRef {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The pod as the API server shows it. Annotations that choose among cards count only until the pod is bound,
    /// because its tenant may change them while its containers hold their cards.
    pub fn new(pod: &slim::Pod, dialects: &Dialects) -> Self {
        let ask = match node_name(pod.spec.node_name.as_deref()) {
            None => validate(dialects, &view(pod)),
            Some(_) => asked_by_limits(&pod.spec, dialects),
        };
        Self::asking(pod, ask)
    }

    /// A pod to be created from this manifest. The manifest may name a node, as one that was read from a cluster
    /// does. The request is still read as that of a pod that is not bound.
    pub fn proposed(pod: &slim::Pod, dialects: &Dialects) -> Self {
        Self::asking(pod, validate(dialects, &view(pod)))
    }

    fn asking(pod: &slim::Pod, ask: Result<Option<PodAsk>, Violations>) -> Self {
        let meta = &pod.metadata;
        let annotations = meta.annotations.as_ref();
        let annotation = |name: &str| annotations.and_then(|all| all.get(name)).cloned();
        Self {
            uid: PodUid::new(meta.uid.as_deref().unwrap_or_default()),
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            version: meta.resource_version.clone().unwrap_or_default(),
            node: node_name(pod.spec.node_name.as_deref()),
            ended: matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")),
            deleting: meta.deletion_timestamp.is_some(),
            gated: !pod.spec.scheduling_gates.is_empty(),
            rank: rank(pod),
            created: meta.creation_timestamp.as_ref().map_or(0, seconds),
            ask,
            host: host(&pod.spec),
            preemption: PreemptionFacts::of(pod),
            record: annotation(names::ALLOCATION),
            claim: annotation(names::PREEMPTION),
        }
    }

    /// The room that the pod's annotation claims for it; `None` if it claims none. It is an error if the claim cannot
    /// be trusted.
    pub fn claim(&self, classes: &Classes) -> Option<Result<(ClaimRecord, Placement), ClaimError>> {
        let ask = self.ask.as_ref().ok()?.as_ref()?;
        let claim = ClaimRecord::decode(self.claim.as_deref()?);
        Some(claim.and_then(|claim| {
            let placement = claim.verify(&self.uid, classes, ask)?;
            Ok((claim, placement))
        }))
    }

    /// The booking that the pod's record proves; `None` if the pod is not bound, asks for nothing or carries no
    /// record. It is an error if the record cannot be trusted.
    pub fn bound(&self, classes: &Classes) -> Option<Result<BoundPod, RecordError>> {
        let node = self.node.as_ref()?;
        let ask = self.ask.as_ref().ok()?.as_ref()?;
        let record = self.record.as_deref()?;
        let verified = Record::decode(record)
            .and_then(|record| record.verify(&self.uid, node, classes, ask))
            .map(|placement| BoundPod {
                pod: self.uid.clone(),
                node: node.clone(),
                ask: ask.clone(),
                placement,
            });
        Some(verified)
    }

    /// Whether the pod has a node and asks for devices, validly or not, but carries no record of its own: it bypassed
    /// kube-scheduler, so no device was chosen for it. A record with the pod's uid counts as its own even if it does
    /// not match the request, and so does any record of a newer gpushare.
    pub fn is_past_scheduler(&self) -> bool {
        let own = |record: &str| match Record::decode(record) {
            Ok(record) => record.pod == self.uid,
            Err(error) => matches!(error, RecordError::Version(_)),
        };
        let asks = !matches!(self.ask, Ok(None));
        self.node.is_some() && asks && !self.record().is_some_and(own)
    }

    /// The record in the annotation, whether it can be trusted or not.
    pub fn record(&self) -> Option<&str> {
        self.record.as_deref()
    }
}

impl PreemptionFacts {
    fn of(pod: &slim::Pod) -> Self {
        let slim::Pod {
            metadata,
            spec,
            status,
        } = pod;
        let labels = metadata.labels.as_ref();
        Self {
            preempts: spec.preemption_policy.as_deref() != Some("Never")
                && !rank(pod).is_over_budget(),
            ends_by: metadata.deletion_timestamp.as_ref().map(seconds),
            started: status.start_time.as_ref().map_or(i64::MAX, seconds),
            running: status.phase.as_deref() == Some("Running"),
            labels: labels.map(Labels::from).unwrap_or_default(),
            nominated: node_name(status.nominated_node_name.as_deref()),
        }
    }
}

/// Only the timekeeper can write the marks (`deploy/admission.yaml`).
fn rank(pod: &slim::Pod) -> Rank {
    let priority = pod.spec.priority.unwrap_or(Rank::ORDINARY);
    let annotations = pod.metadata.annotations.as_ref();
    let marked = |name: &str| annotations.is_some_and(|all| all.contains_key(name));
    if marked(names::OVER_BUDGET_MARK) {
        Rank::over_budget(priority)
    } else if marked(names::RESTORED_MARK) {
        Rank::restored(priority)
    } else {
        Rank::within_budget(priority)
    }
}

fn node_name(name: Option<&str>) -> Option<NodeName> {
    name.filter(|name| !name.is_empty()).map(NodeName::new)
}

fn seconds(time: &Time) -> i64 {
    time.0.as_second()
}

fn host(spec: &slim::PodSpec) -> Host {
    let stated = StatedResources::from(spec);
    Host::of(stated.request(CPU), stated.request(MEMORY))
}

/// What a node has for pods besides its cards.
pub fn allocatable(node: &slim::Node) -> Host {
    let (cpu, memory) = node.status.allocatable.text();
    Host::read(cpu, memory)
}

/// Whether the kubelet of a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kubelet {
    Reports,
    /// The node controller has not heard from it for a while.
    Silent {
        /// In seconds since 1970.
        since: Option<i64>,
    },
}

/// A kubelet reports `True` or `False` for itself. The node controller writes `Unknown` if it has not heard from the
/// kubelet for a while.
pub fn kubelet(node: &slim::Node) -> Kubelet {
    let mut conditions = node.status.conditions.iter();
    let ready = conditions.find(|condition| condition.kind == "Ready");
    match ready.map(|ready| (ready.status.as_str(), &ready.last_transition_time)) {
        Some(("True" | "False", _)) => Kubelet::Reports,
        Some((_, at)) => Kubelet::Silent {
            since: at.as_ref().map(|at| at.0.as_second()),
        },
        None => Kubelet::Silent { since: None },
    }
}

fn view(pod: &slim::Pod) -> PodView<'_> {
    let annotations = pod.metadata.annotations.iter().flatten();
    PodView {
        containers: containers(&pod.spec),
        annotations: annotations
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
    }
}

/// What the pod asks for by the limits of its containers, which nobody can change, whatever its annotations say.
pub(crate) fn asked_by_limits(
    spec: &slim::PodSpec,
    dialects: &Dialects,
) -> Result<Option<PodAsk>, Violations> {
    validate_bound(dialects, &containers(spec))
}

fn containers(spec: &slim::PodSpec) -> Vec<ContainerView<'_>> {
    started(&spec.init_containers, &spec.containers)
        .map(|(index, container, role)| ContainerView {
            name: &container.name,
            role,
            index,
            limits: container
                .resources
                .limits
                .iter()
                .map(|(name, value)| (name.as_str(), value.0.as_str()))
                .collect(),
        })
        .collect()
}

/// A pod's containers in the order in which they start, each with its place in its list.
pub(crate) fn started<'a, C: Starts>(
    init: &'a [C],
    apps: &'a [C],
) -> impl Iterator<Item = (u32, &'a C, Role)> {
    let init = init.iter().map(|container| {
        let sidecar = container.restart_policy() == Some("Always");
        (container, if sidecar { Role::Sidecar } else { Role::Init })
    });
    let apps = apps.iter().map(|container| (container, Role::App));
    let numbered = (0..).zip(init).chain((0..).zip(apps));
    numbered.map(|(index, (container, role))| (index, container, role))
}

/// The cards of all classes that a node's agents published; `None` if they have published none. A card that two
/// agents publish would be booked twice, so it is an error.
pub fn cards(node: &slim::Node, classes: &Classes) -> Result<Option<Vec<Card>>, InventoryError> {
    let mut cards: Option<Vec<Card>> = None;
    for text in published(node, names::CARDS) {
        let cards = cards.get_or_insert_default();
        for card in inventory::decode(classes, text)? {
            if cards.iter().any(|other| other.id == card.id) {
                return Err(InventoryError::Twice(card.id));
            }
            cards.push(card);
        }
    }
    Ok(cards)
}

/// What containers without pods still hold on the node, as its agents report it. An unreadable annotation is an
/// error, because it does not mean that nothing is held.
pub fn held(node: &slim::Node, classes: &Classes) -> Result<Vec<HeldPod>, HeldError> {
    let mut pods: BTreeMap<PodUid, HeldPod> = BTreeMap::new();
    for text in published(node, names::HELD) {
        for held in held::decode(classes, text)? {
            match pods.entry(held.pod.clone()) {
                Entry::Vacant(new) => {
                    new.insert(held);
                }
                // The pod holds cards of several classes, and each class has its own agent.
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    let both = std::mem::take(&mut known.charges).into_iter();
                    known.charges = both.chain(held.charges).collect();
                }
            }
        }
    }
    Ok(pods.into_values().collect())
}

/// The values of an annotation that a node's agents write: under its own name, and under names that continue it after
/// a dot.
fn published<'a>(node: &'a slim::Node, annotation: &str) -> impl Iterator<Item = &'a str> {
    let all = node.metadata.annotations.iter().flatten();
    all.filter(move |(name, _)| {
        let suffix = name.strip_prefix(annotation);
        suffix.is_some_and(|suffix| suffix.is_empty() || suffix.starts_with('.'))
    })
    .map(|(_, text)| text.as_str())
}

#[cfg(test)]
mod tests;
