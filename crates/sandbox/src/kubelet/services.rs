//! The two gRPC services of a kubelet: plugins register here, and agents ask which pod holds which devices.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_daemon::Tasks;
use gpushare_kubelet_api::deviceplugin::device_plugin_client::DevicePluginClient;
use gpushare_kubelet_api::deviceplugin::registration_server::{Registration, RegistrationServer};
use gpushare_kubelet_api::deviceplugin::{
    Empty, KUBELET_SOCKET, LARGEST_MESSAGE, RegisterRequest, VERSION,
};
use gpushare_kubelet_api::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use gpushare_kubelet_api::podresources::{
    ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse,
    PodResources,
};
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::service_fn;

use super::devices::Devices;
use crate::error::SandboxError;

pub(super) fn serve(
    devices: &Arc<Devices>,
    directory: &Path,
    resources_socket: &Path,
    tasks: &Tasks,
) -> Result<(), SandboxError> {
    let registration = RegistrationServer::new(Register {
        directory: directory.to_owned(),
        devices: Arc::clone(devices),
        tasks: tasks.clone(),
    });
    let incoming = listen(&directory.join(KUBELET_SOCKET))?;
    let stop = tasks.shutdown().clone();
    tasks.service("a kubelet's registration", async move {
        Server::builder()
            .add_service(registration)
            .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
            .await
    });
    let resources = PodResourcesListerServer::new(List(Arc::clone(devices)));
    let incoming = listen(resources_socket)?;
    let stop = tasks.shutdown().clone();
    tasks.service("a kubelet's PodResources", async move {
        Server::builder()
            .add_service(resources)
            .serve_with_incoming_shutdown(incoming, stop.cancelled_owned())
            .await
    });
    Ok(())
}

fn listen(socket: &Path) -> Result<UnixListenerStream, SandboxError> {
    let listener = UnixListener::bind(socket).map_err(|source| SandboxError::File {
        path: socket.to_owned(),
        source,
    })?;
    Ok(UnixListenerStream::new(listener))
}

struct Register {
    directory: PathBuf,
    devices: Arc<Devices>,
    tasks: Tasks,
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
        let channel = connect(self.directory.join(&request.endpoint))
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let client = DevicePluginClient::new(channel).max_decoding_message_size(LARGEST_MESSAGE);
        let resource = request.resource_name;
        self.devices.plug_in(&resource, client.clone());
        let (devices, stop) = (Arc::clone(&self.devices), self.tasks.shutdown().clone());
        self.tasks.job(async move {
            stop.run_until_cancelled(read(client, &resource, &devices))
                .await;
        });
        Ok(Response::new(Empty {}))
    }
}

/// Reads the plugin's device lists until the stream ends. After that the resource has no devices.
async fn read(mut client: DevicePluginClient<Channel>, resource: &str, devices: &Devices) {
    match client.list_and_watch(Empty {}).await {
        Ok(lists) => {
            let mut lists = lists.into_inner();
            while let Ok(Some(list)) = lists.message().await {
                let found = list.devices.into_iter();
                devices.list(
                    resource,
                    found.map(|device| (device.id, device.health)).collect(),
                );
            }
        }
        Err(status) => tracing::warn!(%status, resource, "a plugin does not list its devices"),
    }
    devices.list(resource, BTreeMap::new());
}

async fn connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }))
        .await
}

struct List(Arc<Devices>);

#[tonic::async_trait]
impl PodResourcesLister for List {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let memory = self.0.memory.lock();
        let mut pods: BTreeMap<(String, String), BTreeMap<String, Vec<ContainerDevices>>> =
            BTreeMap::new();
        for allocation in memory.allocations.iter().filter(|held| held.listed) {
            let pod = (allocation.namespace.clone(), allocation.pod.clone());
            let containers = pods.entry(pod).or_default();
            let devices = containers.entry(allocation.container.clone()).or_default();
            // One message for each device, as in a kubelet.
            devices.extend(allocation.ids.iter().map(|id| ContainerDevices {
                resource_name: allocation.resource.clone(),
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
