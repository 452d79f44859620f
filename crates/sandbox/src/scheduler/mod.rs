//! A stand-in for kube-scheduler. It tries one pod after the other, by priority. It follows kube-scheduler's rules
//! ([`fit`]) and asks the extender about cards over HTTP, as kube-scheduler does.
//!
//! The crate's documentation lists what it leaves out.

mod cluster;
mod extender;
mod fit;
mod place;
mod preempt;
mod queue;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use gpushare_core::gpu;
use gpushare_daemon::Tasks;
use gpushare_kube::totals::Totals;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Client, ResourceExt};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::SandboxError;
use crate::events::Recorder;
use crate::fleet::READING;
use crate::mirror::{Change, Mirror};
use crate::pace::Pace;
use cluster::Cluster;
use extender::Extender;
use queue::{Cause, Queue};

const NAME: &str = "default-scheduler";

pub(crate) struct Scheduler {
    client: Client,
    extender: Extender,
    recorder: Arc<Recorder>,
    /// The extender is called for pods that request one of these resources.
    managed: BTreeSet<String>,
    budgets: Arc<Mirror<PodDisruptionBudget>>,
    queue: Queue,
    cluster: Cluster,
    tasks: Tasks,
    /// Pods whose bind failed.
    failures: UnboundedSender<Failure>,
}

/// A bind that failed.
struct Failure {
    pod: Arc<Pod>,
    reason: String,
}

impl Scheduler {
    pub(crate) fn start(
        client: &Client,
        pods: Arc<Mirror<Pod>>,
        nodes: Arc<Mirror<Node>>,
        extender: SocketAddr,
        pace: Pace,
        tasks: &Tasks,
    ) -> Result<(), SandboxError> {
        let dialects = gpu::read(READING);
        let (failures, failed) = unbounded_channel();
        let mut scheduler = Self {
            client: client.clone(),
            extender: Extender::new(extender)?,
            recorder: Arc::new(Recorder::new(client.clone(), NAME)),
            managed: dialects.resources().map(ToString::to_string).collect(),
            budgets: Mirror::start(client, tasks, "the scheduler's view of disruption budgets"),
            queue: Queue::new(pace.speed()),
            cluster: Cluster::default(),
            tasks: tasks.clone(),
            failures,
        };
        let stop = tasks.shutdown().clone();
        tasks.service("the scheduler", async move {
            let running = scheduler.run(pods.subscribe(), nodes.subscribe(), failed);
            stop.run_until_cancelled(running).await;
            Ok::<(), Infallible>(())
        });
        Ok(())
    }

    async fn run(
        &mut self,
        mut pods: UnboundedReceiver<Change<Pod>>,
        mut nodes: UnboundedReceiver<Change<Node>>,
        mut failed: UnboundedReceiver<Failure>,
    ) {
        loop {
            // Receive all changes first, so that no decision uses stale data without need.
            while let Ok(change) = nodes.try_recv() {
                self.see_node(change);
            }
            while let Ok(change) = pods.try_recv() {
                self.see_pod(change);
            }
            while let Ok(failure) = failed.try_recv() {
                self.give_back(failure).await;
            }
            if let Some(pod) = self.queue.pop(Instant::now()) {
                self.schedule(pod).await;
                continue;
            }
            let due = async {
                match self.queue.next_due() {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(change) = nodes.recv() => self.see_node(change),
                Some(change) = pods.recv() => self.see_pod(change),
                Some(failure) = failed.recv() => self.give_back(failure).await,
                () = due => {}
            }
        }
    }

    fn see_node(&mut self, change: Change<Node>) {
        match change {
            Change::Applied(node) => {
                if self.cluster.set_node(node) {
                    self.queue.stir(Instant::now());
                }
            }
            Change::Deleted(node) => self.cluster.remove_node(&node.name_any()),
        }
    }

    fn see_pod(&mut self, change: Change<Pod>) {
        let now = Instant::now();
        let (pod, gone) = match change {
            Change::Applied(pod) => (pod, false),
            Change::Deleted(pod) => (pod, true),
        };
        let uid = pod.uid().unwrap_or_default();
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        let over = gone || matches!(phase, Some("Succeeded" | "Failed"));
        let spec = pod.spec.as_ref();
        if over {
            self.queue.remove(&uid);
            if self.cluster.remove(&uid) {
                self.queue.stir(now);
            }
        } else if let Some(node) = spec.and_then(|spec| spec.node_name.as_deref()) {
            self.queue.remove(&uid);
            let node = node.to_owned();
            self.cluster.place(&pod, &node);
        } else if is_ours(&pod) {
            self.queue.offer(pod, now);
        } else {
            self.queue.remove(&uid);
        }
    }

    async fn give_back(&mut self, failure: Failure) {
        let uid = failure.pod.uid().unwrap_or_default();
        self.cluster.remove(&uid);
        self.queue.refuse(&uid, Cause::Error, Instant::now());
        let message = format!("running Bind plugin: {}", failure.reason);
        self.tell_refused(&failure.pod, "SchedulerError", &message)
            .await;
    }

    fn is_managed(&self, asked: &Totals) -> bool {
        asked.keys().any(|name| self.managed.contains(name))
    }
}

/// Whether the pod waits for this scheduler.
fn is_ours(pod: &Pod) -> bool {
    let spec = pod.spec.as_ref();
    let scheduler = spec.and_then(|spec| spec.scheduler_name.as_deref());
    let gates = spec.and_then(|spec| spec.scheduling_gates.as_ref());
    pod.metadata.deletion_timestamp.is_none()
        && scheduler.is_none_or(|name| name == NAME)
        && gates.is_none_or(Vec::is_empty)
}
