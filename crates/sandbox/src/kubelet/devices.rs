//! A kubelet's device manager: which plugin serves which resource, which container holds which ids, and the calls to
//! the plugins.
//!
//! As in a kubelet, ids of regular init containers are reused for later containers of the same pod.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_daemon::Tasks;
use gpushare_kubelet_api::deviceplugin::device_plugin_client::DevicePluginClient;
use gpushare_kubelet_api::deviceplugin::{
    AllocateRequest, ContainerAllocateRequest, ContainerAllocateResponse, HEALTHY,
    PreStartContainerRequest,
};
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::Channel;

use super::groups::Groups;
use super::{checkpoint, services};
use crate::error::SandboxError;

pub(crate) struct Devices {
    pub(super) directory: PathBuf,
    groups: Groups,
    pub(super) memory: Mutex<Memory>,
    changed: watch::Sender<()>,
    /// Admits one pod at a time, as a kubelet does: a free device must stay free until it is allocated.
    admitting: tokio::sync::Mutex<()>,
}

#[derive(Default)]
pub(super) struct Memory {
    plugins: BTreeMap<String, Plugin>,
    pub(super) allocations: Vec<Allocation>,
}

struct Plugin {
    client: DevicePluginClient<Channel>,
    /// Id to health.
    devices: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
pub(super) struct Allocation {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) resource: String,
    pub(super) ids: Vec<String>,
    pub(super) answer: ContainerAllocateResponse,
    /// Regular init containers are in the checkpoint but not in PodResources.
    pub(super) listed: bool,
}

/// The plugin to call, and the ids to allocate.
type Chosen = (DevicePluginClient<Channel>, Vec<String>);

/// A container that requests devices.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) container: String,
    /// By resource, including resources that no plugin serves.
    pub(super) limits: BTreeMap<String, usize>,
    /// Whether the container ends before the next one starts.
    pub(super) passing: bool,
}

/// The pod whose containers request devices.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) uid: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

impl Devices {
    /// Opens the kubelet's sockets.
    pub(super) fn serve(
        directory: &Path,
        resources_socket: &Path,
        cgroup_root: &Path,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, SandboxError> {
        let devices = Arc::new(Self {
            directory: directory.to_owned(),
            groups: Groups::make(cgroup_root)?,
            memory: Mutex::default(),
            changed: watch::Sender::new(()),
            admitting: tokio::sync::Mutex::default(),
        });
        services::serve(&devices, directory, resources_socket, tasks)?;
        Ok(devices)
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn plug_in(&self, resource: &str, client: DevicePluginClient<Channel>) {
        let plugin = Plugin {
            client,
            devices: BTreeMap::new(),
        };
        let mut memory = self.memory.lock();
        memory.plugins.insert(resource.to_owned(), plugin);
    }

    pub(super) fn list(&self, resource: &str, devices: BTreeMap<String, String>) {
        if let Some(plugin) = self.memory.lock().plugins.get_mut(resource) {
            plugin.devices = devices;
        }
        self.changed.send_replace(());
    }

    /// How many devices there are of each resource, and how many of them are healthy.
    pub(super) fn offered(&self) -> BTreeMap<String, (usize, usize)> {
        let memory = self.memory.lock();
        let counted = memory.plugins.iter().map(|(resource, plugin)| {
            let healthy = plugin.devices.values().filter(|health| *health == HEALTHY);
            (resource.clone(), (plugin.devices.len(), healthy.count()))
        });
        counted.collect()
    }

    /// Allocates devices to every container of a pod, in the order in which they start. Errors read as a kubelet's.
    pub(super) async fn admit(&self, owner: &Owner, containers: &[Asking]) -> Result<(), String> {
        let _one_at_a_time = self.admitting.lock().await;
        self.groups.add(&owner.uid)?;
        let mut reusable: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for asking in containers {
            for (resource, count) in &asking.limits {
                let Some((mut client, ids)) =
                    self.choose(resource, *count, reusable.entry(resource).or_default())?
                else {
                    continue;
                };
                let again = reusable.entry(resource).or_default();
                if asking.passing {
                    again.extend(ids.iter().cloned());
                } else {
                    again.retain(|id| !ids.contains(id));
                }
                let request = AllocateRequest {
                    container_requests: vec![ContainerAllocateRequest {
                        devices_ids: ids.clone(),
                    }],
                };
                let answer = client.allocate(request).await.map_err(|status| {
                    format!("Allocate failed due to rpc error: {status}, which is unexpected")
                })?;
                let answer = answer.into_inner().container_responses.into_iter().next();
                self.memory.lock().allocations.push(Allocation {
                    uid: owner.uid.clone(),
                    namespace: owner.namespace.clone(),
                    pod: owner.name.clone(),
                    container: asking.container.clone(),
                    resource: resource.clone(),
                    ids,
                    answer: answer.unwrap_or_default(),
                    listed: !asking.passing,
                });
            }
        }
        checkpoint::write(self)
    }

    /// The plugin and the ids, reusable ones first; `None` if no plugin serves the resource.
    fn choose(
        &self,
        resource: &str,
        count: usize,
        reusable: &BTreeSet<String>,
    ) -> Result<Option<Chosen>, String> {
        let memory = self.memory.lock();
        let Some(plugin) = memory.plugins.get(resource) else {
            return Ok(None);
        };
        let taken: BTreeSet<&String> = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.resource == resource)
            .flat_map(|allocation| &allocation.ids)
            .collect();
        let free = plugin
            .devices
            .iter()
            .filter(|(id, health)| *health == HEALTHY && !taken.contains(id))
            .map(|(id, _)| id);
        let ids: Vec<String> = reusable.iter().chain(free).take(count).cloned().collect();
        if ids.len() < count {
            return Err(format!(
                "Allocate failed due to requested number of devices unavailable for {resource}. \
                 Requested: {count}, Available: {}, which is unexpected",
                ids.len()
            ));
        }
        Ok(Some((plugin.client.clone(), ids)))
    }

    /// The calls that precede each start of a container.
    pub(super) async fn pre_start(&self, uid: &str, container: &str) -> Result<(), String> {
        for (resource, ids) in self.held(uid, container) {
            let client = {
                let memory = self.memory.lock();
                let plugin = memory.plugins.get(&resource);
                plugin.map(|plugin| plugin.client.clone())
            };
            let Some(mut client) = client else {
                return Err(format!("the plugin of {resource} has stopped"));
            };
            let request = PreStartContainerRequest { devices_ids: ids };
            client.pre_start_container(request).await.map_err(|status| {
                format!(
                    "device plugin PreStartContainer rpc failed with err: rpc error: code = {:?} desc = {}",
                    status.code(),
                    status.message()
                )
            })?;
        }
        Ok(())
    }

    fn held(&self, uid: &str, container: &str) -> Vec<(String, Vec<String>)> {
        let memory = self.memory.lock();
        let held = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.uid == uid && allocation.container == container);
        held.map(|allocation| (allocation.resource.clone(), allocation.ids.clone()))
            .collect()
    }

    /// The CDI devices that the runtime injects.
    pub(super) fn cdi_names(&self, uid: &str, container: &str) -> Vec<String> {
        let memory = self.memory.lock();
        let held = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.uid == uid && allocation.container == container);
        held.flat_map(|allocation| &allocation.answer.cdi_devices)
            .map(|device| device.name.clone())
            .collect()
    }

    /// The pod's last process has ended.
    pub(super) fn end_processes(&self, uid: &str) {
        self.groups.remove(uid);
    }

    /// Frees all devices of the pod.
    pub(super) fn free(&self, uid: &str) {
        self.end_processes(uid);
        let mut memory = self.memory.lock();
        let before = memory.allocations.len();
        memory
            .allocations
            .retain(|allocation| allocation.uid != uid);
        let changed = memory.allocations.len() != before;
        drop(memory);
        if changed && let Err(error) = checkpoint::write(self) {
            tracing::warn!(error, "a kubelet cannot write its checkpoint");
        }
    }
}
