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
        metadata: named(name),
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
        let labels = self.metadata.labels.get_or_insert_default();
        labels.insert(key.to_owned(), value.to_owned());
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
        let finalizers = self.metadata.finalizers.get_or_insert_default();
        finalizers.push(name.to_owned());
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
        let amount = Quantity(amount.to_owned());
        self.limits.insert(resource.to_owned(), amount);
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
        let name = name.to_owned();
        self.gates.push(PodSchedulingGate { name });
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

impl From<PodBuilder> for Pod {
    fn from(builder: PodBuilder) -> Self {
        builder.build()
    }
}

/// A node that exists only as an object, with this capacity. Nodes are cluster-wide: take the name from `Scope::unique`.
pub fn node(name: &str, resource: &str, amount: &str) -> Node {
    let taint = Taint {
        key: RESERVED.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    let amount = Quantity(amount.to_owned());
    Node {
        metadata: named(name),
        spec: Some(NodeSpec {
            taints: Some(vec![taint]),
            ..NodeSpec::default()
        }),
        status: Some(NodeStatus {
            capacity: Some([(resource.to_owned(), amount)].into()),
            ..NodeStatus::default()
        }),
    }
}

/// The same with healthy cards of so many MiB, which the inventory lists and the node's capacity counts.
pub fn node_with_cards(name: &str, cards: &[u64]) -> Node {
    let total: u64 = cards.iter().sum();
    let mut node = node(name, names::GPU_MEM, &total.to_string());
    let card = |(mib, index): (&u64, u32)| Card {
        id: CardId::new(format!("GPU-{name}-{index}")),
        class: gpu::CLASS.into(),
        index,
        model: "Test Card".into(),
        capacity: Amounts::of(gpu::MEMORY, *mib).with(gpu::CORE, gpu::WHOLE_CORE),
        healthy: true,
    };
    let cards: Vec<_> = cards.iter().zip(0..).map(card).collect();
    let written = inventory::encode(&gpu::classes(), &cards);
    node.metadata.annotations = Some([(names::CARDS.to_owned(), written)].into());
    node
}

/// The node that a pod is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// How far a pod has come, such as `Pending`.
pub fn phase_of(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}
