//! The kubelet of the node. A test says which container it admits and starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_kubelet_api::deviceplugin::{CHECKPOINT, KUBELET_SOCKET, RegisterRequest};
use gpushare_kubelet_api::stand_in::{self, Allocation, ContainerRequest, Owner, StartError};
use gpushare_node::config::Config;
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::pods;

pub(crate) struct Kubelet {
    devices: Arc<stand_in::Kubelet>,
    directory: PathBuf,
    resources_socket: PathBuf,
    /// The uids of pods whose uid is not derived from their name.
    uids: Mutex<BTreeMap<String, String>>,
    running: CancellationToken,
}

impl Kubelet {
    /// The kubelet of the agent with this configuration.
    pub(crate) fn start(config: &Config) -> Self {
        let directory = &config.device_plugin_dir;
        let kubelet = Self {
            devices: stand_in::Kubelet::new(directory, &config.cgroup_root).unwrap(),
            directory: directory.clone(),
            resources_socket: config.pod_resources_socket.clone(),
            uids: Mutex::default(),
            running: CancellationToken::new(),
        };
        kubelet.serve();
        kubelet
    }

    fn serve(&self) {
        let devices = || Arc::clone(&self.devices);
        let listen = |socket: &Path| UnixListener::bind(socket).unwrap();
        let plugins = listen(&self.directory.join(KUBELET_SOCKET));
        tokio::spawn(devices().serve_registration(plugins, self.running.clone()));
        let agents = listen(&self.resources_socket);
        tokio::spawn(devices().serve_pod_resources(agents, self.running.clone()));
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
        self.devices.forget_plugins();
    }

    pub(crate) fn registrations(&self) -> Vec<RegisterRequest> {
        self.devices.registrations()
    }

    pub(crate) fn healthy(&self, resource: &str) -> usize {
        let offered = self.devices.offered();
        offered.get(resource).map_or(0, |(_, healthy)| *healthy)
    }

    pub(crate) fn unhealthy(&self, resource: &str) -> usize {
        let offered = self.devices.offered();
        offered
            .get(resource)
            .map_or(0, |(all, healthy)| all - healthy)
    }

    /// Admits one container: takes free devices, calls the plugin, writes the checkpoint.
    pub(crate) async fn admit(&self, pod: &str, container: &str, resource: &str, count: u64) {
        self.allocate(pod, container, resource, count, false).await;
    }

    /// Admits an init container; its devices are reused for later containers of the pod.
    pub(crate) async fn admit_init(&self, pod: &str, container: &str, resource: &str, count: u64) {
        self.allocate(pod, container, resource, count, true).await;
    }

    /// Admits a container with the same devices as an init container of its pod.
    pub(crate) async fn admit_reusing(&self, pod: &str, container: &str, from: &str) {
        let init = self.allocation(pod, from);
        self.admit(pod, container, &init.resource, init.ids.len() as u64)
            .await;
        assert_eq!(self.allocation(pod, container).ids, init.ids);
    }

    async fn allocate(
        &self,
        pod: &str,
        container: &str,
        resource: &str,
        count: u64,
        passing: bool,
    ) {
        let count = usize::try_from(count).unwrap();
        let request = ContainerRequest {
            container: container.to_owned(),
            limits: BTreeMap::from([(resource.to_owned(), count)]),
            passing,
        };
        let admitted = self.devices.admit(&self.owner(pod), &[request]).await;
        admitted.unwrap();
        assert_eq!(self.allocation(pod, container).ids.len(), count);
    }

    /// Allocates the devices of pod `from` to pod `to` as well, which no kubelet should do.
    pub(crate) fn give_again(&self, from: &str, to: &str) {
        let twice = Allocation {
            owner: self.owner(to),
            ..self.allocation(from, "main")
        };
        self.devices.remember(twice).unwrap();
    }

    /// The pod has this uid instead of the one that follows from its name.
    pub(crate) fn learn_uid(&self, pod: &str, uid: String) {
        self.uids.lock().insert(pod.to_owned(), uid);
    }

    fn owner(&self, pod: &str) -> Owner {
        Owner {
            uid: self.uid(pod),
            namespace: "default".to_owned(),
            name: pod.to_owned(),
        }
    }

    fn uid(&self, pod: &str) -> String {
        let known = self.uids.lock().get(pod).cloned();
        known.unwrap_or_else(|| pods::uid(pod))
    }

    /// The last process of the pod ends.
    pub(crate) fn end_processes(&self, pod: &str) {
        self.devices.end_processes(&self.uid(pod));
    }

    /// Frees the devices of a pod, as a kubelet does when its object is gone.
    pub(crate) fn free_pod(&self, pod: &str) {
        self.devices.free(&self.uid(pod)).unwrap();
    }

    pub(crate) fn break_checkpoint(&self, text: &str) {
        std::fs::write(self.directory.join(CHECKPOINT), text).unwrap();
    }

    pub(crate) fn delete_plugin_sockets(&self) {
        for registration in self.registrations() {
            std::fs::remove_file(self.directory.join(registration.endpoint)).unwrap();
        }
    }

    /// PodResources refuses the next calls.
    pub(crate) fn refuse_lists(&self, calls: usize) {
        self.devices.refuse_lists(calls);
    }

    /// How often PodResources was called.
    pub(crate) fn lists(&self) -> usize {
        self.devices.lists()
    }

    pub(crate) fn allocation(&self, pod: &str, container: &str) -> Allocation {
        let mut held = self.devices.held(&self.uid(pod), container);
        assert_eq!(held.len(), 1, "{pod}/{container}: {held:?}");
        held.remove(0)
    }

    pub(crate) fn cdi_name(&self, pod: &str, container: &str) -> String {
        let mut names = self.devices.cdi_names(&self.uid(pod), container);
        assert_eq!(names.len(), 1);
        names.remove(0)
    }

    /// Starts a container: the call that comes before each start.
    pub(crate) async fn start_container(&self, pod: &str, container: &str) -> Result<(), Status> {
        let allocation = self.allocation(pod, container);
        self.pre_start(&allocation.resource, allocation.ids).await
    }

    pub(crate) async fn pre_start(&self, resource: &str, ids: Vec<String>) -> Result<(), Status> {
        let started = self.devices.pre_start_with(resource, ids).await;
        started.map_err(|error| match error {
            StartError::Refused(status) => status,
            StartError::Stopped(_) => Status::unavailable(error.to_string()),
        })
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        self.running.cancel();
    }
}
