//! The content of a CDI spec file: our own small struct, written as JSON.

use std::collections::BTreeMap;

use gpushare_core::PodUid;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{KIND, Owner, SlotName};

/// The oldest CDI version with annotations on the spec.
pub const OLDEST_VERSION: &str = "0.6.0";

mod annotation {
    pub(super) const POD_UID: &str = "gpushare.io/pod-uid";
    pub(super) const POD: &str = "gpushare.io/pod";
    pub(super) const CONTAINER: &str = "gpushare.io/container";
    pub(super) const RECORD: &str = gpushare_core::names::ALLOCATION;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    cdi_version: String,
    kind: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    devices: Vec<Device>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Device {
    name: String,
    container_edits: ContainerEdits,
}

/// What the runtime changes in a container. Parts that we only pass on from the driver's own spec
/// are kept unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerEdits {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_nodes: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<Value>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Value>,
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        rename = "additionalGids"
    )]
    pub additional_gids: Vec<Value>,
}

/// One slot: its name, its owner, and what its container gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    pub name: SlotName,
    pub owner: Owner,
    /// The CDI version that the edits need.
    pub version: String,
    pub edits: ContainerEdits,
}

impl Slot {
    pub fn encode(&self) -> String {
        let Owner {
            pod,
            pod_name,
            container,
            record,
        } = &self.owner;
        let annotations = [
            (annotation::POD_UID, pod.as_str()),
            (annotation::POD, pod_name),
            (annotation::CONTAINER, container),
            (annotation::RECORD, record),
        ];
        let spec = Spec {
            cdi_version: self.version.clone(),
            kind: KIND.to_owned(),
            annotations: annotations
                .into_iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            devices: vec![Device {
                name: self.name.as_str().to_owned(),
                container_edits: self.edits.clone(),
            }],
        };
        serde_json::to_string(&spec).unwrap_or_else(|_| unreachable!("all keys are strings"))
    }

    /// Reads back one of our own files; `None` if it is not one.
    pub fn decode(text: &[u8]) -> Option<Self> {
        let spec: Spec = serde_json::from_slice(text).ok()?;
        let [device] = spec.devices.as_slice() else {
            return None;
        };
        let annotation = |key: &str| spec.annotations.get(key).cloned();
        Some(Self {
            name: SlotName::parse_qualified(&format!("{}={}", spec.kind, device.name))?,
            owner: Owner {
                pod: PodUid::new(annotation(annotation::POD_UID)?),
                pod_name: annotation(annotation::POD).unwrap_or_default(),
                container: annotation(annotation::CONTAINER).unwrap_or_default(),
                record: annotation(annotation::RECORD)?,
            },
            version: spec.cdi_version.clone(),
            edits: device.container_edits.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_reads_back_as_it_was_written() {
        let slot = Slot {
            name: SlotName::fresh(&["a".to_owned()]),
            owner: Owner {
                pod: "u-1".into(),
                pod_name: "default/p".to_owned(),
                container: "c".to_owned(),
                record: "{}".to_owned(),
            },
            version: OLDEST_VERSION.to_owned(),
            edits: ContainerEdits {
                env: vec!["A=1".to_owned()],
                device_nodes: vec![serde_json::json!({"path": "/dev/nvidia0"})],
                ..ContainerEdits::default()
            },
        };
        assert_eq!(Slot::decode(slot.encode().as_bytes()), Some(slot));
    }

    #[test]
    fn a_spec_of_another_vendor_is_not_ours() {
        let text = r#"{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","annotations":{"gpushare.io/pod-uid":"u",
            "gpushare.io/allocation":"{}"},"devices":[{"name":"a","containerEdits":{}}]}"#;
        assert_eq!(Slot::decode(text.as_bytes()), None);
    }
}
