//! One pod on one node, from its binding to its end.
//!
//! The pod's status shows its progress. A container whose start is refused waits, with the reason in its state, and is
//! retried.

use std::sync::Arc;
use std::time::Duration;

use gpushare_kubelet_api::stand_in::Owner;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::containers::{self, Role, Stage, TrackedContainer};
use super::machine::Place;
use super::{WorkerContext, status};

/// Wait before a refused container is started again.
const BACKOFF: Duration = Duration::from_secs(5);
/// Wait before a status that could not be written is written again.
const RETRY: Duration = Duration::from_millis(500);
const KILLED: i32 = 137;

pub(super) struct Worker {
    context: Arc<WorkerContext>,
    place: Arc<Place>,
    news: watch::Receiver<Arc<Pod>>,
    uid: String,
    containers: Vec<TrackedContainer>,
    since: Timestamp,
    address: Option<String>,
}

impl Worker {
    pub(super) fn new(
        context: Arc<WorkerContext>,
        place: Arc<Place>,
        news: watch::Receiver<Arc<Pod>>,
    ) -> Self {
        let pod = Arc::clone(&news.borrow());
        Self {
            context,
            place,
            news,
            uid: pod.uid().unwrap_or_default(),
            containers: containers::tracked(&pod),
            since: Timestamp::now(),
            address: None,
        }
    }

    pub(super) async fn run(mut self) {
        let leaving = self.leaving();
        let asked_to_end = tokio::select! {
            biased;
            left = leaving => Some(left),
            () = self.live() => None,
        };
        match asked_to_end {
            Some(Some(pod)) => self.end(&pod).await,
            // The pod's object is gone, so no status is written; the containers still get their full grace period.
            Some(None) => self.outlive().await,
            None => {}
        }
        if let Some(kubelet) = &self.place.kubelet {
            kubelet.end_processes(&self.uid);
            if let Err(error) = kubelet.free(&self.uid) {
                tracing::warn!(error, "a kubelet cannot write its checkpoint");
            }
        }
    }

    fn pod(&self) -> Arc<Pod> {
        Arc::clone(&self.news.borrow())
    }

    /// Waits until the pod is being deleted, or is gone (`None`).
    fn leaving(&self) -> impl Future<Output = Option<Arc<Pod>>> + use<> {
        let mut news = self.news.clone();
        async move {
            let leaving = |pod: &Arc<Pod>| pod.metadata.deletion_timestamp.is_some();
            let pod = news.wait_for(leaving).await.ok()?;
            Some(Arc::clone(&pod))
        }
    }

    /// Runs until every container has ended by itself, or forever if one does not.
    async fn live(&mut self) {
        let pod = self.pod();
        if let Err(why) = self.admit(&pod).await {
            let reason = "UnexpectedAdmissionError";
            self.context.recorder.warn(&pod, reason, &why).await;
            self.patch(&status::rejected(reason, &why)).await;
            return;
        }
        let places: Vec<usize> = (0..self.containers.len()).collect();
        for place in places {
            self.start(place).await;
            if self.role(place) == Some(Role::Init) {
                self.wait_for_end(place).await;
            }
        }
        self.address = Some(self.place.next_address());
        self.write_status().await;
        self.run_to_the_end().await;
    }

    async fn admit(&mut self, pod: &Pod) -> Result<(), String> {
        let Some(kubelet) = &self.place.kubelet else {
            return Ok(());
        };
        let owner = Owner {
            uid: self.uid.clone(),
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
        };
        kubelet.admit(&owner, &containers::requests(pod)).await?;
        self.write_status().await;
        Ok(())
    }

    fn role(&self, place: usize) -> Option<Role> {
        self.containers.get(place).map(|container| container.role)
    }

    fn set(&mut self, place: usize, stage: Stage) {
        if let Some(container) = self.containers.get_mut(place) {
            container.stage = stage;
        }
    }

    /// Starts a container, and retries until it starts.
    async fn start(&mut self, place: usize) {
        let Some(name) = self.containers.get(place).map(|c| c.name.clone()) else {
            return;
        };
        if let Some(kubelet) = self.place.kubelet.clone() {
            while let Err(why) = kubelet.pre_start(&self.uid, &name).await {
                let (pod, why) = (self.pod(), why.to_string());
                self.context.recorder.warn(&pod, "Failed", &why).await;
                self.set(
                    place,
                    Stage::Waiting {
                        reason: "CreateContainerConfigError",
                        message: Some(why),
                    },
                );
                self.write_status().await;
                sleep(self.context.pace.of(BACKOFF)).await;
            }
        }
        let (pod, now) = (self.pod(), Timestamp::now());
        self.set(place, Stage::Running { since: now });
        let line = format!("{now:.0} container {name} runs on node {}", self.place.name);
        self.context.logs.write(&pod, &name, &line);
        for variable in self.place.environment(&pod, &self.uid, &name) {
            self.context.logs.write(&pod, &name, &variable);
        }
        if self.place.kubelet.is_some() {
            let message = format!("Started container {name}");
            self.context.recorder.tell(&pod, "Started", &message).await;
        }
    }

    async fn wait_for_end(&mut self, place: usize) {
        let Some(container) = self.containers.get(place).cloned() else {
            return;
        };
        let Stage::Running { since } = container.stage else {
            return;
        };
        match containers::lifetime(&self.pod(), &container.name, container.role) {
            None => std::future::pending().await,
            Some(lifetime) => {
                let ran = Timestamp::now().duration_since(since);
                let ran = Duration::try_from(ran).unwrap_or_default();
                sleep(self.context.pace.of(lifetime).saturating_sub(ran)).await;
            }
        }
        let until = Timestamp::now();
        let line = format!("{until:.0} container {} ends", container.name);
        self.context.logs.write(&self.pod(), &container.name, &line);
        self.set(
            place,
            Stage::Ended {
                since,
                until,
                code: 0,
            },
        );
    }

    async fn run_to_the_end(&mut self) {
        let apps: Vec<usize> = self.places(|container| container.role == Role::App);
        for place in apps {
            self.wait_for_end(place).await;
        }
        // Sidecars end after the last app container.
        self.end_running(0);
        self.write_status().await;
    }

    fn places(&self, select: impl Fn(&TrackedContainer) -> bool) -> Vec<usize> {
        let containers = self.containers.iter().enumerate();
        let selected = containers.filter(|(_, container)| select(container));
        selected.map(|(place, _)| place).collect()
    }

    fn end_running(&mut self, code: i32) {
        let until = Timestamp::now();
        for container in &mut self.containers {
            let since = match container.stage {
                Stage::Running { since } => since,
                Stage::Waiting { .. } => until,
                Stage::Ended { .. } => continue,
            };
            container.stage = Stage::Ended { since, until, code };
        }
        if let Some(kubelet) = &self.place.kubelet {
            kubelet.end_processes(&self.uid);
        }
    }

    /// Lets the containers end within the grace period, then deletes the pod's object.
    async fn end(&mut self, pod: &Pod) {
        if status::is_over(pod) {
            return;
        }
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let farewell = containers::farewell(pod);
        sleep(self.context.pace.of(farewell.min(grace))).await;
        self.end_running(if farewell > grace { KILLED } else { 0 });
        self.write_status().await;
        let pods: Api<Pod> = self.api(pod);
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(self.uid.clone()),
                resource_version: None,
            }),
            ..DeleteParams::default().grace_period(0)
        };
        if let Err(error) = pods.delete(&pod.name_any(), &params).await {
            tracing::debug!(%error, pod = pod.name_any(), "the pod was gone already");
        }
    }

    /// Lets the containers end within the grace period of the pod's spec, as kubelets do after a forced deletion.
    async fn outlive(&mut self) {
        let pod = self.pod();
        if status::is_over(&pod) {
            return;
        }
        let spec = pod.spec.as_ref();
        let grace = spec.and_then(|spec| spec.termination_grace_period_seconds);
        let grace = Duration::from_secs(u64::try_from(grace.unwrap_or(30)).unwrap_or(0));
        let farewell = containers::farewell(&pod);
        sleep(self.context.pace.of(farewell.min(grace))).await;
    }

    fn api(&self, pod: &Pod) -> Api<Pod> {
        let namespace = pod.namespace().unwrap_or_default();
        Api::namespaced(self.context.client.clone(), &namespace)
    }

    async fn write_status(&self) {
        let (host, address) = (&self.place.address, self.address.as_deref());
        let status = status::write(&self.containers, self.since, host, address);
        self.patch(&status).await;
    }

    /// Retries until the API server accepts the status or refuses it, as when the pod is gone or was replaced.
    async fn patch(&self, status: &Value) {
        let pod = self.pod();
        let pods: Api<Pod> = self.api(&pod);
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        let (params, patch) = (PatchParams::default(), Patch::Strategic(patch));
        loop {
            match pods.patch_status(&pod.name_any(), &params, &patch).await {
                Ok(_) => return,
                Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => {
                    tracing::debug!(%status, pod = pod.name_any(), "a status is not wanted");
                    return;
                }
                Err(error) => {
                    tracing::warn!(%error, pod = pod.name_any(), "cannot write a status");
                    sleep(RETRY).await;
                }
            }
        }
    }
}
