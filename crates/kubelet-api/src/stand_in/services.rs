//! The two gRPC services of a kubelet: plugins register here, and agents query which pod holds which devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Error, Server};
use tonic::{Request, Response, Status};

use super::{DeviceHealth, Kubelet, Plugin};
use crate::deviceplugin::device_plugin_client::DevicePluginClient;
use crate::deviceplugin::registration_server::{Registration, RegistrationServer};
use crate::deviceplugin::{Empty, LARGEST_MESSAGE, RegisterRequest, VERSION};
use crate::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use crate::podresources::{
    ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse,
    PodResources,
};
use crate::socket;

impl Kubelet {
    /// Registers plugins until `stop`.
    pub async fn serve_registration(
        self: Arc<Self>,
        listener: UnixListener,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        let service = Register {
            kubelet: self,
            stop: stop.clone(),
        };
        Server::builder()
            .add_service(RegistrationServer::new(service))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await
    }

    /// Serves PodResources until `stop`: which pod holds which devices.
    pub async fn serve_pod_resources(
        self: Arc<Self>,
        listener: UnixListener,
        stop: CancellationToken,
    ) -> Result<(), Error> {
        Server::builder()
            .add_service(PodResourcesListerServer::from_arc(self))
            .serve_with_incoming_shutdown(UnixListenerStream::new(listener), stop.cancelled_owned())
            .await
    }

    /// Reads the plugin's device lists until the stream ends. After that the resource has no devices.
    async fn read(
        self: Arc<Self>,
        mut client: DevicePluginClient<Channel>,
        resource: String,
        devices: DeviceHealth,
    ) {
        match client.list_and_watch(Empty {}).await {
            Ok(lists) => {
                let mut lists = lists.into_inner();
                while let Ok(Some(list)) = lists.message().await {
                    let found = list.devices.into_iter();
                    *devices.lock() = found.map(|device| (device.id, device.health)).collect();
                    self.changed.send_replace(());
                }
            }
            Err(status) => tracing::warn!(%status, resource, "a plugin does not list its devices"),
        }
        devices.lock().clear();
        self.changed.send_replace(());
    }
}

struct Register {
    kubelet: Arc<Kubelet>,
    stop: CancellationToken,
}

#[tonic::async_trait]
impl Registration for Register {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        if request.version != VERSION {
            let message = format!(
                "requested API version {:?} is not supported",
                request.version
            );
            return Err(Status::unimplemented(message));
        }
        let channel = socket::connect(&self.kubelet.directory.join(&request.endpoint))
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let client = DevicePluginClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
        let (resource, devices) = (request.resource_name.clone(), DeviceHealth::default());
        let plugin = Plugin {
            client: client.clone(),
            devices: Arc::clone(&devices),
        };
        let mut memory = self.kubelet.memory.lock();
        memory.plugins.insert(resource.clone(), plugin);
        memory.registrations.push(request);
        drop(memory);
        let reading = Arc::clone(&self.kubelet).read(client, resource, devices);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(reading));
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for Kubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let mut memory = self.memory.lock();
        memory.lists += 1;
        if let Some(left) = memory.lists_to_refuse.checked_sub(1) {
            memory.lists_to_refuse = left;
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        let mut pods: BTreeMap<(String, String), BTreeMap<String, Vec<ContainerDevices>>> =
            BTreeMap::new();
        for held in memory.allocations.iter().filter(|held| held.listed) {
            let pod = (held.owner.namespace.clone(), held.owner.name.clone());
            let containers = pods.entry(pod).or_default();
            let devices = containers.entry(held.container.clone()).or_default();
            // One message for each device, as in a kubelet.
            devices.extend(held.ids.iter().map(|id| ContainerDevices {
                resource_name: held.resource.clone(),
                device_ids: vec![id.clone()],
            }));
        }
        drop(memory);
        let pod_resources = pods.into_iter().map(|((namespace, name), containers)| {
            let containers = containers.into_iter();
            PodResources {
                name,
                namespace,
                containers: containers
                    .map(|(name, devices)| ContainerResources { name, devices })
                    .collect(),
            }
        });
        Ok(Response::new(ListPodResourcesResponse {
            pod_resources: pod_resources.collect(),
        }))
    }
}
