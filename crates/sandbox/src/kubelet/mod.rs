//! A stand-in for the kubelets of all simulated nodes: what the API server, the device plugins and `kubectl` see of one.
//!
//! On nodes with an agent it speaks the real device plugin and PodResources protocols over sockets
//! ([`gpushare_kubelet_api::stand_in`]); on the others it trusts the allocation record. Containers are not run
//! ([`containers`]): their log is the environment that they would have ([`logs`]).

mod containers;
mod logs;
mod machine;
mod pods;
mod status;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use gpushare_daemon::Tasks;
use gpushare_node::offer::Offer;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use crate::error::SandboxError;
use crate::events::Recorder;
use crate::fleet::{self, Machine};
use crate::mirror::{Change, Mirror};
use crate::pace::Pace;

pub(crate) use logs::LogBook;
use machine::Place;
pub(crate) use machine::longest_socket;
use pods::Worker;

/// How many nodes are registered at the same time.
const AT_ONCE: usize = 32;

/// What kubelets need.
pub(crate) struct Kubelets {
    pub(crate) client: Client,
    pub(crate) pods: Arc<Mirror<Pod>>,
    pub(crate) logs: Arc<LogBook>,
    pub(crate) pace: Pace,
    pub(crate) tasks: Tasks,
}

/// What the workers of pods share.
pub(crate) struct WorkerContext {
    pub(crate) client: Client,
    pub(crate) logs: Arc<LogBook>,
    pub(crate) pace: Pace,
    pub(crate) recorder: Recorder,
}

impl Kubelets {
    /// Registers every node, with its agent if it has one, and starts to run pods.
    pub(crate) async fn start(self, machines: &[Machine], home: &Path) -> Result<(), SandboxError> {
        let offer = Offer::new(fleet::READING, fleet::SLOTS);
        let starting = stream::iter(machines).map(|machine| {
            let (client, offer, tasks) = (&self.client, &offer, &self.tasks);
            async move {
                let place = Place::start(machine, client, offer, home, tasks).await?;
                Ok::<_, SandboxError>((machine.name.clone(), Arc::new(place)))
            }
        });
        let places: BTreeMap<String, Arc<Place>> =
            starting.buffer_unordered(AT_ONCE).try_collect().await?;
        let context = Arc::new(WorkerContext {
            recorder: Recorder::new(self.client.clone(), "kubelet"),
            client: self.client,
            logs: self.logs,
            pace: self.pace,
        });
        let changes = self.pods.subscribe();
        let (tasks, stop) = (self.tasks.clone(), self.tasks.shutdown().clone());
        self.tasks.service("the kubelets", async move {
            let running = follow(changes, &places, &context, &tasks);
            stop.run_until_cancelled(running).await;
            Ok::<(), Infallible>(())
        });
        Ok(())
    }
}

/// Starts a worker for every pod that is bound to one of our nodes, and sends each worker the changes of its pod.
async fn follow(
    mut changes: UnboundedReceiver<Change<Pod>>,
    places: &BTreeMap<String, Arc<Place>>,
    context: &Arc<WorkerContext>,
    tasks: &Tasks,
) {
    let mut workers: BTreeMap<String, watch::Sender<Arc<Pod>>> = BTreeMap::new();
    while let Some(change) = changes.recv().await {
        match change {
            Change::Deleted(pod) => {
                // Dropping the sender tells the worker that its pod is gone.
                workers.remove(&pod.uid().unwrap_or_default());
                context.logs.forget(&pod);
            }
            Change::Applied(pod) => {
                let uid = pod.uid().unwrap_or_default();
                if let Some(worker) = workers.get(&uid) {
                    worker.send_replace(pod);
                    continue;
                }
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
                let Some(place) = node.and_then(|node| places.get(node)) else {
                    continue;
                };
                if status::is_over(&pod) {
                    continue;
                }
                let (send, receive) = watch::channel(pod);
                workers.insert(uid, send);
                let worker = Worker::new(Arc::clone(context), Arc::clone(place), receive);
                let stop = tasks.shutdown().clone();
                tasks.job(async move {
                    stop.run_until_cancelled(worker.run()).await;
                });
            }
        }
    }
}
