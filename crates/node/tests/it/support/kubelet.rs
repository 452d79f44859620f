//! A simulated kubelet, as far as device plugins notice: registration, device list, Allocate and PreStart
//! calls, the checkpoint, and the PodResources service.

mod services;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gpushare_kubelet_api::deviceplugin::device_plugin_client::DevicePluginClient;
use gpushare_kubelet_api::deviceplugin::{
    AllocateRequest, CHECKPOINT, ContainerAllocateRequest, ContainerAllocateResponse, HEALTHY,
    KUBELET_SOCKET, PreStartContainerRequest, RegisterRequest,
};
use parking_lot::Mutex;
use prost::Message;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Channel;

use super::pods::uid;

pub(crate) struct Kubelet {
    directory: PathBuf,
    resources_socket: PathBuf,
    /// The control group of all pods.
    kubepods: PathBuf,
    memory: Arc<Mutex<Memory>>,
    running: CancellationToken,
}

/// What a kubelet knows.
#[derive(Default)]
pub(crate) struct Memory {
    plugins: BTreeMap<String, RegisteredPlugin>,
    allocations: Vec<Allocation>,
    /// PodResources refuses this many calls before it answers.
    pub(crate) refuse_lists: usize,
    pub(crate) lists: usize,
    pub(crate) registrations: Vec<RegisterRequest>,
    /// The uids of pods whose uid is not derived from their name.
    pub(crate) uids: BTreeMap<String, String>,
}

struct RegisteredPlugin {
    client: DevicePluginClient<Channel>,
    /// Id to health.
    devices: BTreeMap<String, String>,
}

#[derive(Clone)]
pub(crate) struct Allocation {
    pub(crate) pod: String,
    pub(crate) container: String,
    pub(crate) resource: String,
    pub(crate) ids: Vec<String>,
    pub(crate) answer: ContainerAllocateResponse,
    /// Regular init containers are in the checkpoint but not in PodResources.
    pub(crate) listed: bool,
}

impl Kubelet {
    pub(crate) fn start(directory: &Path, resources_socket: &Path, cgroup_root: &Path) -> Self {
        let kubepods = cgroup_root.join("kubepods");
        std::fs::create_dir_all(&kubepods).unwrap();
        std::fs::write(cgroup_root.join("cgroup.controllers"), "").unwrap();
        let kubelet = Self {
            directory: directory.to_owned(),
            resources_socket: resources_socket.to_owned(),
            kubepods,
            memory: Arc::default(),
            running: CancellationToken::new(),
        };
        kubelet.serve();
        kubelet
    }

    fn serve(&self) {
        let (memory, stop) = (&self.memory, &self.running);
        services::registration(
            &self.directory.join(KUBELET_SOCKET),
            &self.directory,
            memory,
            stop,
        );
        services::pod_resources(&self.resources_socket, memory, stop);
    }

    /// Forgets all plugins, deletes all sockets and restarts, as a kubelet does.
    pub(crate) fn restart(&mut self) {
        self.running.cancel();
        self.running = CancellationToken::new();
        self.forget_registrations();
        for entry in std::fs::read_dir(&self.directory).unwrap() {
            let path = entry.unwrap().path();
            if !path.ends_with(CHECKPOINT) {
                std::fs::remove_file(path).unwrap();
            }
        }
        std::fs::remove_file(&self.resources_socket).unwrap();
        self.serve();
    }

    pub(crate) fn forget_registrations(&self) {
        let mut memory = self.memory.lock();
        memory.plugins.clear();
        memory.registrations.clear();
    }

    pub(crate) fn with_memory<T>(&self, look: impl FnOnce(&mut Memory) -> T) -> T {
        look(&mut self.memory.lock())
    }

    fn count(&self, resource: &str, healthy: bool) -> usize {
        let memory = self.memory.lock();
        let devices = memory.plugins.get(resource).map(|plugin| &plugin.devices);
        devices.map_or(0, |devices| {
            let health = devices.values().map(|health| health == HEALTHY);
            health.filter(|is| *is == healthy).count()
        })
    }

    pub(crate) fn healthy(&self, resource: &str) -> usize {
        self.count(resource, true)
    }

    pub(crate) fn unhealthy(&self, resource: &str) -> usize {
        self.count(resource, false)
    }

    /// Admits one container: takes free devices, asks the plugin, writes the checkpoint.
    pub(crate) async fn admit(&self, pod: &str, container: &str, resource: &str, count: u64) {
        let ids = self.free(resource, count);
        self.allocate(pod, container, resource, ids, true).await;
    }

    /// Admits an init container; its devices may be reused for later containers of the pod.
    pub(crate) async fn admit_init(&self, pod: &str, container: &str, resource: &str, count: u64) {
        let ids = self.free(resource, count);
        self.allocate(pod, container, resource, ids, false).await;
    }

    /// Admits a container with the same devices as an init container of its pod.
    pub(crate) async fn admit_reusing(&self, pod: &str, container: &str, from: &str) {
        let init = self.allocation(pod, from);
        self.allocate(pod, container, &init.resource, init.ids, true)
            .await;
    }

    fn free(&self, resource: &str, count: u64) -> Vec<String> {
        let memory = self.memory.lock();
        let taken: BTreeSet<&String> = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.resource == resource)
            .flat_map(|allocation| &allocation.ids)
            .collect();
        let free = memory.plugins[resource]
            .devices
            .iter()
            .filter(|(id, health)| *health == HEALTHY && !taken.contains(id));
        let ids: Vec<String> = free
            .map(|(id, _)| id.clone())
            .take(usize::try_from(count).unwrap())
            .collect();
        assert_eq!(ids.len() as u64, count, "not enough free devices");
        ids
    }

    async fn allocate(
        &self,
        pod: &str,
        container: &str,
        resource: &str,
        ids: Vec<String>,
        listed: bool,
    ) {
        let request = AllocateRequest {
            container_requests: vec![ContainerAllocateRequest {
                devices_ids: ids.clone(),
            }],
        };
        let mut client = self.client(resource).unwrap();
        let answer = client.allocate(request).await.unwrap().into_inner();
        self.remember(Allocation {
            pod: pod.to_owned(),
            container: container.to_owned(),
            resource: resource.to_owned(),
            ids,
            answer: answer.container_responses[0].clone(),
            listed,
        });
    }

    pub(crate) fn remember(&self, allocation: Allocation) {
        let group = self.group(&allocation.pod);
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("cgroup.events"), "populated 1\nfrozen 0\n").unwrap();
        self.memory.lock().allocations.push(allocation);
        self.write_checkpoint();
    }

    /// The pod's control group. It has a process as soon as the pod's sandbox runs, so before the first container.
    fn group(&self, pod: &str) -> PathBuf {
        let memory = self.memory.lock();
        let uid = memory.uids.get(pod).cloned().unwrap_or_else(|| uid(pod));
        self.kubepods.join(format!("pod{uid}"))
    }

    /// The last process of the pod ends.
    pub(crate) fn end_processes(&self, pod: &str) {
        // A pod that never had a container has no group.
        let _ = std::fs::remove_dir_all(self.group(pod));
    }

    /// Frees the devices of a pod, as a kubelet does when its object is gone.
    pub(crate) fn free_pod(&self, pod: &str) {
        let mut memory = self.memory.lock();
        memory
            .allocations
            .retain(|allocation| allocation.pod != pod);
        drop(memory);
        self.write_checkpoint();
    }

    fn write_checkpoint(&self) {
        let memory = self.memory.lock();
        let entries: Vec<_> = memory
            .allocations
            .iter()
            .map(|allocation| {
                json!({
                    "PodUID": memory.uids.get(&allocation.pod).cloned().unwrap_or_else(|| uid(&allocation.pod)),
                    "ContainerName": allocation.container,
                    "ResourceName": allocation.resource,
                    "DeviceIDs": {"-1": allocation.ids},
                    "AllocResp": STANDARD.encode(allocation.answer.encode_to_vec()),
                })
            })
            .collect();
        let text =
            json!({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1});
        let unfinished = self.directory.join(".checkpoint");
        std::fs::write(&unfinished, text.to_string()).unwrap();
        std::fs::rename(&unfinished, self.directory.join(CHECKPOINT)).unwrap();
    }

    pub(crate) fn break_checkpoint(&self, text: &str) {
        std::fs::write(self.directory.join(CHECKPOINT), text).unwrap();
    }

    pub(crate) fn delete_plugin_sockets(&self) {
        for registration in self.with_memory(|memory| memory.registrations.clone()) {
            std::fs::remove_file(self.directory.join(registration.endpoint)).unwrap();
        }
    }

    pub(crate) fn allocation(&self, pod: &str, container: &str) -> Allocation {
        let memory = self.memory.lock();
        let mut found = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.pod == pod && allocation.container == container);
        found.next().unwrap().clone()
    }

    pub(crate) fn cdi_name(&self, pod: &str, container: &str) -> String {
        let answer = self.allocation(pod, container).answer;
        assert_eq!(answer.cdi_devices.len(), 1);
        answer.cdi_devices[0].name.clone()
    }

    /// Starts a container: the call that comes before each start.
    pub(crate) async fn start_container(&self, pod: &str, container: &str) -> Result<(), Status> {
        let allocation = self.allocation(pod, container);
        self.pre_start(&allocation.resource, allocation.ids).await
    }

    pub(crate) async fn pre_start(&self, resource: &str, ids: Vec<String>) -> Result<(), Status> {
        let mut client = self.client(resource)?;
        let request = PreStartContainerRequest { devices_ids: ids };
        client.pre_start_container(request).await.map(|_| ())
    }

    fn client(&self, resource: &str) -> Result<DevicePluginClient<Channel>, Status> {
        let memory = self.memory.lock();
        let plugin = memory.plugins.get(resource);
        let stopped = || Status::unavailable("endpoint has been stopped");
        plugin
            .map(|plugin| plugin.client.clone())
            .ok_or_else(stopped)
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.running.cancel();
    }
}
