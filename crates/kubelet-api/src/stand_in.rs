//! A stand-in for the device manager of a kubelet: which plugin serves which resource, which container holds which ids,
//! the calls to the plugins, and what agents see of it: its sockets, its checkpoint and the control groups of its pods.
//!
//! As in a kubelet, ids of regular init containers are reused for later containers of the same pod.

mod groups;
mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use prost::Message;
use serde_json::json;
use thiserror::Error;
use tokio::sync::watch;
use tonic::Status;
use tonic::transport::Channel;

use crate::deviceplugin::device_plugin_client::DevicePluginClient;
use crate::deviceplugin::{
    AllocateRequest, CHECKPOINT, ContainerAllocateRequest, ContainerAllocateResponse, HEALTHY,
    PreStartContainerRequest, RegisterRequest,
};
use groups::Groups;

#[derive(Debug)]
pub struct Kubelet {
    directory: PathBuf,
    groups: Groups,
    memory: Mutex<Memory>,
    changed: watch::Sender<()>,
    /// Admits one pod at a time, as a kubelet does: a free device must stay free until it is allocated.
    admitting: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Memory {
    plugins: BTreeMap<String, Plugin>,
    registrations: Vec<RegisterRequest>,
    allocations: Vec<Allocation>,
    /// How often PodResources was called.
    lists: usize,
    /// PodResources refuses this many calls before it answers.
    lists_to_refuse: usize,
}

/// Id to health. The plugin's list writes it, even after the plugin has registered again.
type DeviceHealth = Arc<Mutex<BTreeMap<String, String>>>;

#[derive(Debug)]
struct Plugin {
    client: DevicePluginClient<Channel>,
    devices: DeviceHealth,
}

/// The devices of one resource that a container holds.
#[derive(Clone, Debug)]
pub struct Allocation {
    pub owner: Owner,
    pub container: String,
    pub resource: String,
    pub ids: Vec<String>,
    pub answer: ContainerAllocateResponse,
    /// Regular init containers are in the checkpoint but not in PodResources.
    pub listed: bool,
}

/// The plugin to call, and the ids to allocate.
type DeviceChoice = (DevicePluginClient<Channel>, Vec<String>);

/// What a container requests of the device plugins.
#[derive(Clone, Debug)]
pub struct ContainerRequest {
    pub container: String,
    /// By resource, including resources that no plugin serves.
    pub limits: BTreeMap<String, usize>,
    /// Whether the container ends before the next one starts.
    pub passing: bool,
}

/// The pod whose containers request devices.
#[derive(Clone, Debug)]
pub struct Owner {
    pub uid: String,
    pub namespace: String,
    pub name: String,
}

/// Why a container does not start, in the words of a kubelet.
#[derive(Debug, Error)]
pub enum StartError {
    #[error("the plugin of {0} has stopped")]
    Stopped(String),
    #[error(
        "device plugin PreStartContainer rpc failed with err: rpc error: code = {:?} desc = {}",
        .0.code(), .0.message()
    )]
    Refused(Status),
}

impl Kubelet {
    /// A kubelet with its plugin directory, on a node whose control groups are mounted at `cgroup_root`.
    pub fn new(directory: &Path, cgroup_root: &Path) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            directory: directory.to_owned(),
            groups: Groups::make(cgroup_root)?,
            memory: Mutex::default(),
            changed: watch::Sender::new(()),
            admitting: tokio::sync::Mutex::default(),
        }))
    }

    /// Changes when a plugin has listed its devices.
    pub fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Forgets all plugins, as after a restart.
    pub fn forget_plugins(&self) {
        let mut memory = self.memory.lock();
        memory.plugins.clear();
        memory.registrations.clear();
    }

    /// What plugins sent to register since [`Self::forget_plugins`].
    pub fn registrations(&self) -> Vec<RegisterRequest> {
        self.memory.lock().registrations.clone()
    }

    /// How many devices there are of each resource, and how many of them are healthy.
    pub fn offered(&self) -> BTreeMap<String, (usize, usize)> {
        let memory = self.memory.lock();
        let counted = memory.plugins.iter().map(|(resource, plugin)| {
            let devices = plugin.devices.lock();
            let healthy = devices.values().filter(|health| *health == HEALTHY);
            (resource.clone(), (devices.len(), healthy.count()))
        });
        counted.collect()
    }

    /// Allocates devices to containers of a pod, in the order in which they start. Errors read as a kubelet's.
    pub async fn admit(
        &self,
        owner: &Owner,
        containers: &[ContainerRequest],
    ) -> Result<(), String> {
        let _one_at_a_time = self.admitting.lock().await;
        self.groups.add(&owner.uid)?;
        for container in containers {
            for (resource, count) in &container.limits {
                let Some((mut client, ids)) = self.choose(&owner.uid, resource, *count)? else {
                    continue;
                };
                let request = AllocateRequest {
                    container_requests: vec![ContainerAllocateRequest {
                        devices_ids: ids.clone(),
                    }],
                };
                let answer = client.allocate(request).await.map_err(|status| {
                    format!("Allocate failed due to rpc error: {status}, which is unexpected")
                })?;
                let answer = answer.into_inner().container_responses.into_iter().next();
                self.remember(Allocation {
                    owner: owner.clone(),
                    container: container.container.clone(),
                    resource: resource.clone(),
                    ids,
                    answer: answer.unwrap_or_default(),
                    listed: !container.passing,
                })?;
            }
        }
        Ok(())
    }

    /// The plugin and the ids, reusable ones first; `None` if no plugin serves the resource.
    fn choose(
        &self,
        uid: &str,
        resource: &str,
        count: usize,
    ) -> Result<Option<DeviceChoice>, String> {
        let memory = self.memory.lock();
        let Some(plugin) = memory.plugins.get(resource) else {
            return Ok(None);
        };
        let taken = memory.ids(|held| held.resource == resource);
        let of_pod = |held: &Allocation| held.resource == resource && held.owner.uid == uid;
        let passed = memory.ids(|held| of_pod(held) && !held.listed);
        let kept = memory.ids(|held| of_pod(held) && held.listed);
        let devices = plugin.devices.lock();
        let free = devices
            .iter()
            .filter(|(id, health)| *health == HEALTHY && !taken.contains(id))
            .map(|(id, _)| id);
        let reusable = passed.difference(&kept).copied();
        let ids: Vec<String> = reusable.chain(free).take(count).cloned().collect();
        if ids.len() < count {
            return Err(format!(
                "Allocate failed due to requested number of devices unavailable for {resource}. \
                 Requested: {count}, Available: {}, which is unexpected",
                ids.len()
            ));
        }
        Ok(Some((plugin.client.clone(), ids)))
    }

    /// Records an allocation. It is in the checkpoint before the container starts.
    pub fn remember(&self, allocation: Allocation) -> Result<(), String> {
        self.memory.lock().allocations.push(allocation);
        self.write_checkpoint()
    }

    /// The calls that precede each start of a container.
    pub async fn pre_start(&self, uid: &str, container: &str) -> Result<(), StartError> {
        for held in self.held(uid, container) {
            self.pre_start_with(&held.resource, held.ids).await?;
        }
        Ok(())
    }

    /// The call that precedes the start of a container with these devices.
    pub async fn pre_start_with(&self, resource: &str, ids: Vec<String>) -> Result<(), StartError> {
        let client = {
            let memory = self.memory.lock();
            let plugin = memory.plugins.get(resource);
            plugin.map(|plugin| plugin.client.clone())
        };
        let mut client = client.ok_or_else(|| StartError::Stopped(resource.to_owned()))?;
        let request = PreStartContainerRequest { devices_ids: ids };
        let answer = client.pre_start_container(request).await;
        answer.map(drop).map_err(StartError::Refused)
    }

    /// What a container holds.
    pub fn held(&self, uid: &str, container: &str) -> Vec<Allocation> {
        let memory = self.memory.lock();
        let held = memory.allocations.iter();
        held.filter(|held| held.owner.uid == uid && held.container == container)
            .cloned()
            .collect()
    }

    /// The CDI devices that the runtime injects.
    pub fn cdi_names(&self, uid: &str, container: &str) -> Vec<String> {
        let held = self.held(uid, container).into_iter();
        held.flat_map(|held| held.answer.cdi_devices)
            .map(|device| device.name)
            .collect()
    }

    /// The pod's last process has ended.
    pub fn end_processes(&self, uid: &str) {
        self.groups.remove(uid);
    }

    /// Frees all devices of the pod, as when its object is gone.
    pub fn free(&self, uid: &str) -> Result<(), String> {
        let mut memory = self.memory.lock();
        let before = memory.allocations.len();
        memory.allocations.retain(|held| held.owner.uid != uid);
        let changed = memory.allocations.len() != before;
        drop(memory);
        if changed {
            self.write_checkpoint()?;
        }
        Ok(())
    }

    /// Writes in one step the file from which agents learn whose container is starting.
    fn write_checkpoint(&self) -> Result<(), String> {
        // The lock is held to the end, so that an older state never overwrites a newer one.
        let memory = self.memory.lock();
        let entry = |held: &Allocation| {
            json!({
                "PodUID": held.owner.uid,
                "ContainerName": held.container,
                "ResourceName": held.resource,
                "DeviceIDs": {"-1": held.ids},
                "AllocResp": STANDARD.encode(held.answer.encode_to_vec()),
            })
        };
        let entries: Vec<_> = memory.allocations.iter().map(entry).collect();
        let text =
            json!({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 0});
        let unfinished = self.directory.join(".checkpoint");
        std::fs::write(&unfinished, text.to_string())
            .and_then(|()| std::fs::rename(&unfinished, self.directory.join(CHECKPOINT)))
            .map_err(|error| format!("cannot write the checkpoint: {error}"))
    }

    /// PodResources refuses the next calls, as in a kubelet that is called too often.
    pub fn refuse_lists(&self, calls: usize) {
        self.memory.lock().lists_to_refuse = calls;
    }

    /// How often PodResources was called.
    pub fn lists(&self) -> usize {
        self.memory.lock().lists
    }
}

impl Memory {
    /// The ids of some of the allocations.
    fn ids(&self, of: impl Fn(&Allocation) -> bool) -> BTreeSet<&String> {
        let chosen = self.allocations.iter().filter(|held| of(held));
        chosen.flat_map(|held| &held.ids).collect()
    }
}
