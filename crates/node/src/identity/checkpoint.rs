//! The kubelet's checkpoint: which container it gave which device ids, with the answer it got from us.
//!
//! The file is internal to the kubelet and its format is not guaranteed. But it is the only source that
//! knows pod uids and init containers, so it is read strictly: anything not understood is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpushare_core::PodUid;
use gpushare_daemon::files::{self, Links};
use gpushare_kubelet_api::deviceplugin::ContainerAllocateResponse;
use prost::Message;
use serde::Deserialize;
use thiserror::Error;

use crate::cdi::SlotName;

/// Far more than a kubelet writes for all pods that fit on a node.
const LARGEST: u64 = 64 << 20;

#[derive(Deserialize)]
struct File {
    #[serde(rename = "Data")]
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    /// Go writes null for an empty list.
    #[serde(rename = "PodDeviceEntries")]
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "PodUID")]
    pod: PodUid,
    #[serde(rename = "ContainerName")]
    container: String,
    #[serde(rename = "ResourceName")]
    resource: String,
    /// By NUMA node; the node does not matter to us.
    #[serde(rename = "DeviceIDs")]
    ids: Option<BTreeMap<String, Vec<String>>>,
    #[serde(rename = "AllocResp")]
    answer: Option<String>,
}

/// A container that holds the ids in question, and the slot that Allocate named for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pod: PodUid,
    pub container: String,
    pub slot: SlotName,
}

#[derive(Debug, Error)]
pub enum CheckpointError {
    #[error(
        "cannot read the kubelet's checkpoint {path}; check that the agent mounts the kubelet's directory"
    )]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "cannot understand the kubelet's checkpoint; this kubelet may be newer than this gpushare"
    )]
    Format(#[source] serde_json::Error),
    #[error(
        "the kubelet's checkpoint has no answer of this gpushare for container {container:?} of pod {pod}; \
         delete the pod, so that it is allocated again"
    )]
    Answer { pod: PodUid, container: String },
}

/// The current content of the file.
pub async fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let file = path.to_owned();
    let reading = move || files::read(&file, Links::Refuse, LARGEST);
    let content = match tokio::task::spawn_blocking(reading).await {
        Ok(content) => content,
        Err(stopping) => Err(io::Error::other(stopping)),
    };
    content.map_err(|source| CheckpointError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Every container to which the kubelet gave exactly these ids of this resource.
pub fn holders(
    file: &[u8],
    resource: &str,
    ids: &BTreeSet<&str>,
) -> Result<Vec<Holder>, CheckpointError> {
    let file: File = serde_json::from_slice(file).map_err(CheckpointError::Format)?;
    let entries = file.data.entries.unwrap_or_default();
    entries
        .into_iter()
        .filter(|entry| entry.resource == resource && entry.ids() == *ids)
        .map(Entry::holder)
        .collect()
}

impl Entry {
    fn ids(&self) -> BTreeSet<&str> {
        let by_node = self.ids.iter().flat_map(BTreeMap::values);
        by_node.flatten().map(String::as_str).collect()
    }

    fn holder(self) -> Result<Holder, CheckpointError> {
        match self.slot() {
            Some(slot) => Ok(Holder {
                pod: self.pod,
                container: self.container,
                slot,
            }),
            None => Err(CheckpointError::Answer {
                pod: self.pod,
                container: self.container,
            }),
        }
    }

    fn slot(&self) -> Option<SlotName> {
        let bytes = STANDARD.decode(self.answer.as_deref()?).ok()?;
        let answer = ContainerAllocateResponse::decode(bytes.as_slice()).ok()?;
        match answer.cdi_devices.as_slice() {
            [device] => SlotName::parse_qualified(&device.name),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
