//! Pods as the meter reads them: the fields of `slim::Pod`, and the times that show when something was held.
//!
//! A separate type, because the extender, which watches tens of thousands of pods, does not need container statuses.

use gpushare_core::dialect::Dialects;
use gpushare_core::names;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, Time};
use kube::ResourceExt;
use serde::{Deserialize, Deserializer};

use crate::convert::PodFacts;
use crate::slim;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Of `managedFields` only the entries for the status are kept, and only their times.
    #[serde(deserialize_with = "metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "slim::or_default")]
    pub spec: slim::PodSpec,
    #[serde(deserialize_with = "slim::or_default")]
    pub status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Status {
    pub phase: Option<String>,
    pub start_time: Option<Time>,
    #[serde(deserialize_with = "slim::or_default")]
    pub conditions: Vec<slim::Condition>,
    #[serde(deserialize_with = "slim::or_default")]
    pub init_container_statuses: Vec<Container>,
    #[serde(deserialize_with = "slim::or_default")]
    pub container_statuses: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    #[serde(deserialize_with = "slim::or_default")]
    pub state: State,
    #[serde(deserialize_with = "slim::or_default")]
    pub last_state: State,
}

/// A container that waits is neither running nor terminated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct State {
    pub running: Option<ContainerRunning>,
    pub terminated: Option<ContainerTerminated>,
}

/// Empty: only its presence matters.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ContainerRunning {}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerTerminated {
    pub finished_at: Option<Time>,
}

/// An entry of `managedFields`: which subresource was written, and when.
#[derive(Deserialize)]
struct Write {
    #[serde(default)]
    subresource: Option<String>,
    #[serde(default)]
    time: Option<Time>,
}

const STATUS: &str = "status";

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let (metadata, writes): (_, Option<Vec<Write>>) = slim::metadata_and_writes(deserializer)?;
    let of_status = writes.into_iter().flatten();
    let of_status = of_status.filter(|write| write.subresource.as_deref() == Some(STATUS));
    let times = of_status.map(|write| ManagedFieldsEntry {
        subresource: write.subresource,
        time: write.time,
        ..ManagedFieldsEntry::default()
    });
    Ok(ObjectMeta {
        managed_fields: Some(times.collect()),
        ..metadata
    })
}

impl Pod {
    /// When its status was last written. Anyone who may edit the pod can change or remove this.
    pub fn status_written(&self) -> Option<&Time> {
        let writes = self.managed_fields().iter();
        let of_status = writes.filter(|write| write.subresource.as_deref() == Some(STATUS));
        let latest = of_status.filter_map(|write| write.time.as_ref());
        latest.max_by_key(|time| time.0)
    }

    pub fn facts(&self, dialects: &Dialects) -> PodFacts {
        let pod = slim::Pod {
            metadata: self.metadata.clone(),
            spec: self.spec.clone(),
            status: slim::PodStatus {
                phase: self.status.phase.clone(),
                start_time: self.status.start_time.clone(),
                nominated_node_name: None,
            },
        };
        PodFacts::new(&pod, dialects)
    }

    /// Whether our finalizer keeps the object until its last charge is in the ledger.
    pub fn awaits_metering(&self) -> bool {
        self.finalizers()
            .iter()
            .any(|finalizer| finalizer == names::METERING)
    }
}

slim::resource!(Pod, "Pod", "pods", kube::core::NamespaceResourceScope);
