//! Pods that are about to be created, and the templates from which pods will be created.

use std::collections::BTreeMap;

use gpushare_core::request::Role;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::convert::started;
use crate::slim::{QuantityText, SchedulingGate, Starts, or_default};

/// The fields of a pod or pod template that can concern us. Absent and empty fields are kept distinct, because
/// a patch depends on the difference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Manifest {
    #[serde(deserialize_with = "or_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    pub spec: Spec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    pub name: Option<String>,
    pub generate_name: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub annotations: BTreeMap<String, String>,
    pub finalizers: Option<Vec<String>>,
    #[serde(deserialize_with = "or_default")]
    pub owner_references: Vec<Owner>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub controller: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    pub priority_class_name: Option<String>,
    pub priority: Option<i32>,
    pub preemption_policy: Option<String>,
    pub scheduling_gates: Option<Vec<SchedulingGate>>,
    #[serde(deserialize_with = "or_default")]
    pub containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    pub ephemeral_containers: Vec<Container>,
    pub volumes: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub restart_policy: Option<String>,
    pub resources: Option<Resources>,
    pub volume_mounts: Option<Vec<Mount>>,
    /// What it runs and with which rights: kept verbatim, so that a container can be recognised by it.
    pub command: Option<Box<RawValue>>,
    pub args: Option<Box<RawValue>>,
    pub env: Option<Box<RawValue>>,
    pub security_context: Option<Box<RawValue>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mount {
    pub name: String,
    pub mount_path: String,
    #[serde(deserialize_with = "or_default")]
    pub read_only: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub limits: Option<BTreeMap<String, QuantityText>>,
    pub requests: Option<BTreeMap<String, QuantityText>>,
}

/// A container and its position in the pod.
#[derive(Clone, Copy, Debug)]
pub struct ContainerEntry<'a> {
    pub container: &'a Container,
    pub role: Role,
    /// Its index in its list.
    pub index: u32,
}

impl Starts for Container {
    fn restart_policy(&self) -> Option<&str> {
        self.restart_policy.as_deref()
    }
}

impl Manifest {
    /// Containers of every kind, in the order in which they start.
    pub fn containers(&self) -> impl Iterator<Item = ContainerEntry<'_>> {
        let Spec {
            init_containers,
            containers,
            ephemeral_containers,
            ..
        } = &self.spec;
        let ephemeral = (0..).zip(ephemeral_containers);
        let ephemeral = ephemeral.map(|(index, container)| (index, container, Role::Ephemeral));
        started(init_containers, containers)
            .chain(ephemeral)
            .map(|(index, container, role)| ContainerEntry {
                container,
                role,
                index,
            })
    }

    /// Its name for people: the pod's name, or the prefix of the name that will be generated.
    pub fn title(&self) -> String {
        let Metadata {
            name,
            generate_name,
            ..
        } = &self.metadata;
        match (name.as_deref(), generate_name.as_deref()) {
            (Some(name), _) if !name.is_empty() => name.to_owned(),
            (_, Some(prefix)) => format!("{prefix}*"),
            _ => "*".to_owned(),
        }
    }

    /// Whether a controller created it; warnings would then not reach the author of the controller's spec.
    pub fn is_controlled(&self) -> bool {
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.controller == Some(true))
    }
}

impl ContainerEntry<'_> {
    /// The field of the pod's spec whose list contains it.
    pub fn list(&self) -> &'static str {
        match self.role {
            Role::App => "containers",
            Role::Init | Role::Sidecar => "initContainers",
            Role::Ephemeral => "ephemeralContainers",
        }
    }
}

/// A pod that is about to be created. Unlike in a template, `metadata` and `spec` must both be present.
#[derive(Clone, Debug, Deserialize)]
pub struct Pod {
    metadata: Metadata,
    spec: Spec,
}

impl From<Pod> for Manifest {
    fn from(pod: Pod) -> Self {
        Self {
            metadata: pod.metadata,
            spec: pod.spec,
        }
    }
}

/// An object from which pods are created: its own name and owners, and its pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    #[serde(deserialize_with = "or_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "or_default")]
    spec: WorkloadSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WorkloadSpec {
    template: Option<Manifest>,
    job_template: Option<JobTemplate>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct JobTemplate {
    #[serde(default, deserialize_with = "or_default")]
    spec: JobSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobSpec {
    template: Option<Manifest>,
}

impl Workload {
    /// The pod template, with the workload's own name and owners.
    pub fn template(self) -> Option<Manifest> {
        let of_job = self.spec.job_template.and_then(|job| job.spec.template);
        let template = self.spec.template.or(of_job)?;
        Some(Manifest {
            metadata: Metadata {
                annotations: template.metadata.annotations,
                ..self.metadata
            },
            spec: template.spec,
        })
    }
}
