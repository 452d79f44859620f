//! The calls that the kubelet makes to the plugin.

use std::pin::Pin;
use std::time::Instant;

use futures::Stream;
use gpushare_kubelet_api::deviceplugin::device_plugin_server::DevicePlugin;
use gpushare_kubelet_api::deviceplugin::{
    AllocateRequest, AllocateResponse, CdiDevice, ContainerAllocateResponse, DevicePluginOptions,
    Empty, ListAndWatchResponse, PreStartContainerRequest, PreStartContainerResponse,
    PreferredAllocationRequest, PreferredAllocationResponse,
};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::Plugin;
use super::devices::TooManyDevices;
use crate::cdi::SlotName;

/// Whether the kubelet reads our list of devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listening {
    NotYet,
    Open,
    /// It has stopped reading; it will not begin again without a new registration.
    Ended,
}

/// The plugin as it is served on one socket.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) plugin: Plugin,
    pub(super) listening: watch::Sender<Listening>,
    /// Ends the streams of this socket.
    pub(super) stop: CancellationToken,
}

pub(super) fn options() -> DevicePluginOptions {
    DevicePluginOptions {
        pre_start_required: true,
        get_preferred_allocation_available: false,
    }
}

type ListAnswer = Result<ListAndWatchResponse, Status>;

#[tonic::async_trait]
impl DevicePlugin for Service {
    type ListAndWatchStream = Pin<Box<dyn Stream<Item = ListAnswer> + Send>>;

    async fn get_device_plugin_options(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<DevicePluginOptions>, Status> {
        Ok(Response::new(options()))
    }

    async fn list_and_watch(
        &self,
        _: Request<Empty>,
    ) -> Result<Response<Self::ListAndWatchStream>, Status> {
        let (send, receive) = mpsc::channel(1);
        let (plugin, stop) = (self.plugin.clone(), self.stop.clone());
        let listening = self.listening.clone();
        listening.send_replace(Listening::Open);
        self.plugin.tasks.job(async move {
            let _stopped = stop.run_until_cancelled(feed(plugin, send)).await;
            listening.send_replace(Listening::Ended);
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receive))))
    }

    async fn get_preferred_allocation(
        &self,
        _: Request<PreferredAllocationRequest>,
    ) -> Result<Response<PreferredAllocationResponse>, Status> {
        Err(Status::unimplemented(
            "device ids are interchangeable, none is preferred",
        ))
    }

    async fn allocate(
        &self,
        request: Request<AllocateRequest>,
    ) -> Result<Response<AllocateResponse>, Status> {
        let container_responses = request
            .into_inner()
            .container_requests
            .iter()
            .map(|container| ContainerAllocateResponse {
                cdi_devices: vec![CdiDevice {
                    name: SlotName::fresh(&container.devices_ids).qualified(),
                }],
            })
            .collect();
        Ok(Response::new(AllocateResponse {
            container_responses,
        }))
    }

    async fn pre_start_container(
        &self,
        request: Request<PreStartContainerRequest>,
    ) -> Result<Response<PreStartContainerResponse>, Status> {
        let began = Instant::now();
        let ids = request.into_inner().devices_ids;
        let Plugin {
            starter,
            division,
            metrics,
            tasks,
            ..
        } = &self.plugin;
        let (division, resource) = (*division, division.resource());
        let starter = starter.clone();
        // It runs to its end even if the kubelet gives up: half a start would leave a pod admitted without files.
        let prepared = tasks.job(async move { starter.prepare(division, &ids).await });
        let outcome = prepared
            .await
            .map_err(|error| Status::internal(format!("gpushare: {error}")))?;
        metrics.started(resource, outcome.as_ref().err(), began.elapsed());
        match outcome {
            Ok(()) => Ok(Response::new(PreStartContainerResponse {})),
            Err(refusal) => {
                let reason = refusal.message();
                tracing::warn!(resource, reason, "refused the start of a container");
                Err(Status::failed_precondition(reason))
            }
        }
    }
}

/// Sends the list now and whenever it changes, until the kubelet stops reading.
async fn feed(mut plugin: Plugin, kubelet: mpsc::Sender<ListAnswer>) {
    let mut sent = None;
    loop {
        // Without a list, registration ends the session; until then no devices are offered.
        let list = plugin.list().and_then(Result::ok).unwrap_or_default();
        if sent.as_ref() != Some(&list) {
            if kubelet.send(Ok(list.clone())).await.is_err() {
                return;
            }
            sent = Some(list);
        }
        tokio::select! {
            changed = plugin.cards.changed() => if changed.is_err() { return },
            () = kubelet.closed() => return,
        }
    }
}

impl Plugin {
    /// The devices of the current cards; `None` until the cards are known.
    pub(super) fn list(&mut self) -> Option<Result<ListAndWatchResponse, TooManyDevices>> {
        let cards = self.cards.borrow_and_update().known().cloned()?;
        Some(self.division.devices(&cards))
    }
}
