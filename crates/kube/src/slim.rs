//! Pods and nodes reduced to what gpushare reads.
//!
//! At 40,000 pods the full types would take most of the memory and of the decoding time. These skip all
//! other fields (above all managedFields) and keep only annotations that can concern us. They are used
//! both for watches and for scheduler-extender bodies.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::{ClusterResourceScope, NamespaceResourceScope};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::totals::{CPU, MEMORY, STORAGE};

/// Annotations that can concern us: our own, and those with which pods of other dialects choose cards.
const ANNOTATION_PREFIXES: [&str; 2] = ["gpushare.io/", "nvidia.com/"];

/// The fields that pods and nodes share; `S` and `T` are what is read of the spec and of the status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(
    default,
    bound = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"
)]
pub struct SlimObject<S, T> {
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    pub spec: S,
    #[serde(deserialize_with = "or_default")]
    pub status: T,
}

pub type Pod = SlimObject<PodSpec, PodStatus>;
pub type Node = SlimObject<NodeSpec, NodeStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: Option<String>,
    pub priority: Option<i32>,
    pub priority_class_name: Option<String>,
    pub preemption_policy: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub scheduling_gates: Vec<SchedulingGate>,
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    /// What the pod's runtime takes in addition to the containers.
    #[serde(deserialize_with = "or_default")]
    pub overhead: HostQuantities,
    /// What the containers request and may use together.
    #[serde(default, deserialize_with = "or_default")]
    pub resources: Resources,
}

/// A gate that must be removed before the scheduler considers the pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SchedulingGate {
    pub name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub restart_policy: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub resources: Resources,
}

/// A container whose restart policy shows how it starts among the containers of its pod.
pub(crate) trait Starts {
    fn restart_policy(&self) -> Option<&str>;
}

impl Starts for Container {
    fn restart_policy(&self) -> Option<&str> {
        self.restart_policy.as_deref()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    #[serde(deserialize_with = "or_default")]
    pub limits: BTreeMap<String, QuantityText>,
    #[serde(deserialize_with = "or_default")]
    pub requests: HostQuantities,
}

/// The host's resources in a map of quantities. Requests of all other resources are as large as their limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct HostQuantities {
    pub cpu: Option<QuantityText>,
    pub memory: Option<QuantityText>,
    #[serde(default, rename = "ephemeral-storage")]
    pub storage: Option<QuantityText>,
}

/// A quantity as written: Kubernetes sends text, people also write plain numbers.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "TextOrNumber")]
pub struct QuantityText(pub String);

impl HostQuantities {
    /// CPU and memory as written.
    pub fn text(&self) -> (Option<&str>, Option<&str>) {
        (text(self.cpu.as_ref()), text(self.memory.as_ref()))
    }

    /// All of them as written, by resource.
    pub(crate) fn written(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = [
            (CPU, &self.cpu),
            (MEMORY, &self.memory),
            (STORAGE, &self.storage),
        ];
        all.into_iter()
            .filter_map(|(name, quantity)| Some((name, text(quantity.as_ref())?)))
    }
}

fn text(quantity: Option<&QuantityText>) -> Option<&str> {
    quantity.map(|quantity| quantity.0.as_str())
}

#[derive(Deserialize)]
#[serde(untagged)]
enum TextOrNumber {
    Text(String),
    Number(serde_json::Number),
}

impl From<TextOrNumber> for QuantityText {
    fn from(value: TextOrNumber) -> Self {
        match value {
            TextOrNumber::Text(text) => Self(text),
            TextOrNumber::Number(number) => Self(number.to_string()),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: Option<String>,
    pub start_time: Option<Time>,
    pub nominated_node_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeSpec {
    /// Cordoned.
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    #[serde(deserialize_with = "or_default")]
    pub allocatable: HostQuantities,
    #[serde(deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub last_transition_time: Option<Time>,
}

/// The fields of metadata that are kept. `managedFields` is long, and `W` says what is read of it.
#[derive(Default, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound = "W: Deserialize<'de> + Default"
)]
struct Metadata<W> {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    deletion_grace_period_seconds: Option<i64>,
    finalizers: Option<Vec<String>>,
    labels: Option<BTreeMap<String, String>>,
    #[serde(deserialize_with = "our_annotations")]
    annotations: Option<BTreeMap<String, String>>,
    managed_fields: W,
}

pub(crate) fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let (metadata, IgnoredAny) = metadata_and_writes(deserializer)?;
    Ok(metadata)
}

/// The metadata, and what `W` reads of `managedFields`.
pub(crate) fn metadata_and_writes<'de, D, W>(deserializer: D) -> Result<(ObjectMeta, W), D::Error>
where
    D: Deserializer<'de>,
    W: Deserialize<'de> + Default,
{
    let kept = Option::<Metadata<W>>::deserialize(deserializer)?.unwrap_or_default();
    let metadata = ObjectMeta {
        name: kept.name,
        namespace: kept.namespace,
        uid: kept.uid,
        resource_version: kept.resource_version,
        creation_timestamp: kept.creation_timestamp,
        deletion_timestamp: kept.deletion_timestamp,
        deletion_grace_period_seconds: kept.deletion_grace_period_seconds,
        finalizers: kept.finalizers,
        labels: kept.labels,
        annotations: kept.annotations,
        ..ObjectMeta::default()
    };
    Ok((metadata, kept.managed_fields))
}

/// Go writes `null` for empty lists and maps.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn our_annotations<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Ours;

    impl<'de> Visitor<'de> for Ours {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map of annotations")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut kept = BTreeMap::new();
            while let Some(key) = map.next_key::<Cow<'de, str>>()? {
                let ours = |prefix: &&str| key.starts_with(*prefix);
                if ANNOTATION_PREFIXES.iter().any(ours) {
                    kept.insert(key.into_owned(), map.next_value()?);
                } else {
                    map.next_value::<serde::de::IgnoredAny>()?;
                }
            }
            Ok((!kept.is_empty()).then_some(kept))
        }
    }

    deserializer.deserialize_any(Ours)
}

macro_rules! resource {
    ($type:ty, $kind:literal, $plural:literal, $scope:ty) => {
        impl kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                "".into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(crate) use resource;

resource!(Pod, "Pod", "pods", NamespaceResourceScope);
resource!(Node, "Node", "nodes", ClusterResourceScope);
