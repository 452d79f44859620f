//! The kubelet's PodResources service: which running container holds which device ids.
//!
//! The service allows only a few calls at once, so concurrent callers share one List: a call waits for
//! the next List to begin, and never uses one that began before the call.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gpushare_kubelet_api::podresources::pod_resources_lister_client::PodResourcesListerClient;
use gpushare_kubelet_api::podresources::{ListPodResourcesRequest, ListPodResourcesResponse};
use gpushare_kubelet_api::socket;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

/// The kubelet may send more than gRPC's default: every device id of the node is in the answer.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
const CALL_DEADLINE: Duration = Duration::from_secs(5);
const ATTEMPTS: u32 = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// More callers than a node has containers starting at once.
const MOST_WAITING: usize = 1024;

/// A container as PodResources shows it: by name, without the pod's uid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedContainer {
    pub namespace: String,
    pub pod: String,
    pub container: String,
}

#[derive(Clone, Debug, Error)]
pub enum ListError {
    #[error("the kubelet does not answer on {socket} ({message}); check that the agent mounts it")]
    Kubelet { socket: PathBuf, message: String },
    #[error("the kubelet did not answer in time; it is tried again by itself")]
    TooSlow,
    #[error("the agent is stopping")]
    Stopping,
}

/// Every container that holds exactly these ids of this resource.
pub fn holders(
    list: &ListPodResourcesResponse,
    resource: &str,
    ids: &BTreeSet<&str>,
) -> Vec<ListedContainer> {
    let containers = list
        .pod_resources
        .iter()
        .flat_map(|pod| pod.containers.iter().map(move |container| (pod, container)));
    containers
        .filter(|(_, container)| {
            // The kubelet sends one message for each device, not one for each resource.
            let of_resource = container
                .devices
                .iter()
                .filter(|devices| devices.resource_name == resource);
            let held: BTreeSet<&str> = of_resource
                .flat_map(|devices| devices.device_ids.iter().map(String::as_str))
                .collect();
            held == *ids
        })
        .map(|(pod, container)| ListedContainer {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: container.name.clone(),
        })
        .collect()
}

type Answer = Result<Arc<ListPodResourcesResponse>, ListError>;

/// Requests Lists; cheap to clone.
#[derive(Clone, Debug)]
pub struct Lister {
    ask: mpsc::Sender<oneshot::Sender<Answer>>,
}

/// Performs the Lists that [`Lister`]s request.
#[derive(Debug)]
pub struct ListerWorker {
    socket: PathBuf,
    asked: mpsc::Receiver<oneshot::Sender<Answer>>,
}

pub fn lister(socket: &Path) -> (Lister, ListerWorker) {
    let (ask, asked) = mpsc::channel(MOST_WAITING);
    let socket = socket.to_owned();
    (Lister { ask }, ListerWorker { socket, asked })
}

impl Lister {
    /// A List that began after this call.
    pub async fn list(&self) -> Answer {
        let (tell, told) = oneshot::channel();
        self.ask.send(tell).await.map_err(|_| ListError::Stopping)?;
        told.await.map_err(|_| ListError::Stopping)?
    }
}

impl ListerWorker {
    pub async fn run(mut self, stop: CancellationToken) {
        while let Some(Some(first)) = stop.run_until_cancelled(self.asked.recv()).await {
            let mut waiting = vec![first];
            while let Ok(more) = self.asked.try_recv() {
                waiting.push(more);
            }
            let answer = list(&self.socket).await;
            for caller in waiting {
                // A caller that has given up meanwhile needs no answer.
                let _ = caller.send(answer.clone());
            }
        }
    }
}

async fn list(socket: &Path) -> Answer {
    let mut pause = FIRST_PAUSE;
    let mut failure = String::new();
    for _ in 0..ATTEMPTS {
        match timeout(CALL_DEADLINE, list_once(socket)).await {
            Ok(Ok(list)) => return Ok(Arc::new(list)),
            Ok(Err(status)) => {
                status.message().clone_into(&mut failure);
                if !matches!(status.code(), Code::ResourceExhausted | Code::Unavailable) {
                    break;
                }
            }
            Err(_) => {
                failure = format!("no answer within {} s", CALL_DEADLINE.as_secs());
                break;
            }
        }
        sleep(pause).await;
        pause *= 2;
    }
    Err(ListError::Kubelet {
        socket: socket.to_owned(),
        message: failure,
    })
}

/// Makes a new connection each time: the kubelet may have restarted, and a unix socket costs next to nothing.
async fn list_once(socket: &Path) -> Result<ListPodResourcesResponse, Status> {
    let channel = socket::connect(socket)
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let answer = PodResourcesListerClient::new(channel)
        .max_decoding_message_size(LARGEST_ANSWER)
        .list(ListPodResourcesRequest {})
        .await?;
    Ok(answer.into_inner())
}
