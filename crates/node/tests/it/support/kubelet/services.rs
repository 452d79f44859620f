//! The two gRPC services of the kubelet.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpushare_kubelet_api::deviceplugin::device_plugin_client::DevicePluginClient;
use gpushare_kubelet_api::deviceplugin::registration_server::{Registration, RegistrationServer};
use gpushare_kubelet_api::deviceplugin::{Empty, RegisterRequest};
use gpushare_kubelet_api::podresources::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use gpushare_kubelet_api::podresources::{
    ContainerDevices, ContainerResources, ListPodResourcesRequest, ListPodResourcesResponse,
    PodResources,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::service_fn;

use super::{Memory, RegisteredPlugin};

type Shared = Arc<Mutex<Memory>>;

pub(crate) fn registration(
    socket: &Path,
    directory: &Path,
    memory: &Shared,
    stop: &CancellationToken,
) {
    let service = RegistrationServer::new(Register {
        directory: directory.to_owned(),
        memory: memory.clone(),
        stop: stop.clone(),
    });
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    tokio::spawn(server);
}

pub(crate) fn pod_resources(socket: &Path, memory: &Shared, stop: &CancellationToken) {
    let service = PodResourcesListerServer::new(List(memory.clone()));
    let incoming = UnixListenerStream::new(UnixListener::bind(socket).unwrap());
    let server = Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, stop.clone().cancelled_owned());
    tokio::spawn(server);
}

struct Register {
    directory: PathBuf,
    memory: Shared,
    stop: CancellationToken,
}

#[tonic::async_trait]
impl Registration for Register {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let socket = self.directory.join(&request.endpoint);
        let client = DevicePluginClient::new(connect(socket).await)
            .max_decoding_message_size(4 * 1024 * 1024);
        let resource = request.resource_name.clone();
        let plugin = RegisteredPlugin {
            client: client.clone(),
            devices: std::collections::BTreeMap::new(),
        };
        let mut memory = self.memory.lock();
        memory.plugins.insert(resource.clone(), plugin);
        memory.registrations.push(request);
        drop(memory);
        let (memory, stop) = (self.memory.clone(), self.stop.clone());
        tokio::spawn(async move {
            stop.run_until_cancelled(listen(client, resource, memory))
                .await;
        });
        Ok(Response::new(Empty {}))
    }
}

/// Reads the plugin's lists until the stream ends. Then the resource has no devices.
async fn listen(mut client: DevicePluginClient<Channel>, resource: String, memory: Shared) {
    let mut lists = client.list_and_watch(Empty {}).await.unwrap().into_inner();
    let set = |devices| {
        if let Some(plugin) = memory.lock().plugins.get_mut(&resource) {
            plugin.devices = devices;
        }
    };
    while let Ok(Some(list)) = lists.message().await {
        let devices = list.devices.into_iter();
        set(devices.map(|device| (device.id, device.health)).collect());
    }
}

async fn connect(socket: PathBuf) -> Channel {
    Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        }))
        .await
        .unwrap()
}

struct List(Shared);

#[tonic::async_trait]
impl PodResourcesLister for List {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        let mut memory = self.0.lock();
        memory.lists += 1;
        if memory.refuse_lists > 0 {
            memory.refuse_lists -= 1;
            return Err(Status::resource_exhausted("rejected by rate limit"));
        }
        let listed = memory
            .allocations
            .iter()
            .filter(|allocation| allocation.listed);
        let pod_resources = listed
            .map(|allocation| PodResources {
                name: allocation.pod.clone(),
                namespace: "default".to_owned(),
                containers: vec![ContainerResources {
                    name: allocation.container.clone(),
                    // One message for each device, as the kubelet does it.
                    devices: allocation
                        .ids
                        .iter()
                        .map(|id| ContainerDevices {
                            resource_name: allocation.resource.clone(),
                            device_ids: vec![id.clone()],
                        })
                        .collect(),
                }],
            })
            .collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }
}
