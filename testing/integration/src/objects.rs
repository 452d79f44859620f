//! Builders for the objects of tests.

use std::collections::BTreeMap;

use gpushare_core::{Amounts, Card, CardId, gpu, inventory, names};
use k8s_openapi::api::core::v1::{
    Container, Node, NodeSpec, NodeStatus, Pod, PodSchedulingGate, PodSpec, ResourceRequirements,
    Taint,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;

/// A scheduler that does not exist: pods that name it wait until the test binds them.
pub const NO_SCHEDULER: &str = "gpushare-integration";

/// Keeps pods of other users off the test's nodes.
pub const RESERVED: &str = "gpushare.io/integration-test";

/// A pod with one container, which no scheduler handles.
pub fn pod(name: &str) -> PodBuilder {
    PodBuilder {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        limits: BTreeMap::new(),
        gates: Vec::new(),
    }
}

/// Builds a pod.
#[derive(Debug, Clone)]
pub struct PodBuilder {
    metadata: ObjectMeta,
    limits: BTreeMap<String, Quantity>,
    gates: Vec<PodSchedulingGate>,
}

impl PodBuilder {
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .labels
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    #[must_use]
    pub fn finalizer(mut self, name: &str) -> Self {
        self.metadata
            .finalizers
            .get_or_insert_default()
            .push(name.to_owned());
        self
    }

    /// Lets the server choose the name.
    #[must_use]
    pub fn generate_name(mut self, prefix: &str) -> Self {
        self.metadata.name = None;
        self.metadata.generate_name = Some(prefix.to_owned());
        self
    }

    /// Sets a limit of the container, which is also its request.
    #[must_use]
    pub fn limit(mut self, resource: &str, amount: &str) -> Self {
        self.limits
            .insert(resource.to_owned(), Quantity(amount.to_owned()));
        self
    }

    /// Memory on one card in our dialect.
    #[must_use]
    pub fn gpu_mem(self, mib: u64) -> Self {
        self.limit(names::GPU, "1")
            .limit(names::GPU_MEM, &mib.to_string())
    }

    #[must_use]
    pub fn scheduling_gate(mut self, name: &str) -> Self {
        self.gates.push(PodSchedulingGate {
            name: name.to_owned(),
        });
        self
    }

    pub fn build(self) -> Pod {
        let container = Container {
            name: "main".to_owned(),
            image: Some("gpushare.invalid/none:1".to_owned()),
            resources: (!self.limits.is_empty()).then(|| ResourceRequirements {
                limits: Some(self.limits),
                ..ResourceRequirements::default()
            }),
            ..Container::default()
        };
        let spec = PodSpec {
            scheduler_name: Some(NO_SCHEDULER.to_owned()),
            scheduling_gates: (!self.gates.is_empty()).then_some(self.gates),
            containers: vec![container],
            ..PodSpec::default()
        };
        Pod {
            metadata: self.metadata,
            spec: Some(spec),
            ..Pod::default()
        }
    }
}

/// A node that exists only as an object. Nodes are cluster-wide: take the name from `Scope::unique`.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        capacity: BTreeMap::new(),
        cards: Vec::new(),
    }
}

/// Builds a node.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    metadata: ObjectMeta,
    capacity: BTreeMap<String, Quantity>,
    cards: Vec<Card>,
}

impl NodeBuilder {
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        let annotations = self.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.metadata
            .labels
            .get_or_insert_default()
            .insert(key.to_owned(), value.to_owned());
        self
    }

    #[must_use]
    pub fn capacity(mut self, resource: &str, amount: &str) -> Self {
        self.capacity
            .insert(resource.to_owned(), Quantity(amount.to_owned()));
        self
    }

    /// Adds a healthy card with this much memory; the inventory and the node's totals follow.
    #[must_use]
    pub fn card(mut self, id: &str, mib: u64) -> Self {
        let index = u32::try_from(self.cards.len()).unwrap_or(u32::MAX);
        self.cards.push(Card {
            id: CardId::new(id),
            class: gpu::CLASS.into(),
            index,
            model: "Test Card".into(),
            capacity: Amounts::of(gpu::MEMORY, mib).with(gpu::CORE, gpu::WHOLE_CORE),
            healthy: true,
        });
        self
    }

    pub fn build(mut self) -> Node {
        if !self.cards.is_empty() {
            let total: u64 = self
                .cards
                .iter()
                .map(|card| card.capacity.get(gpu::MEMORY))
                .sum();
            let written = inventory::encode(&gpu::classes(), &self.cards);
            self = self
                .annotation(names::CARDS, &written)
                .capacity(names::GPU_MEM, &total.to_string());
        }
        let taint = Taint {
            key: RESERVED.to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        Node {
            metadata: self.metadata,
            spec: Some(NodeSpec {
                taints: Some(vec![taint]),
                ..NodeSpec::default()
            }),
            status: Some(NodeStatus {
                capacity: Some(self.capacity),
                ..NodeStatus::default()
            }),
        }
    }
}
