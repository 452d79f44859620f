//! The start of a container: identity, record, guard, CDI files. Or a refusal that the user can read.
//!
//! Fail-closed: if anything is missing or in doubt, the container does not start, and the kubelet
//! shows the reason in the container's state and tries again.

mod refusal;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gpushare_core::Card;
use gpushare_core::dialect::Dialects;
use gpushare_core::gpu::env::container_env;
use gpushare_core::gpu::{self, AliyunUnit};
use gpushare_core::ledger::BoundPod;
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cards::Cards;
use crate::cdi::nvidia::DriverSpecs;
use crate::cdi::spec::{ContainerEdits, OLDEST_VERSION, Slot};
use crate::cdi::{Owner, SlotFiles};
use crate::cgroup::Cgroups;
use crate::guard::GuardRefusal;
use crate::identity::checkpoint;
use crate::identity::podresources::{self, ListError, Lister};
use crate::identity::{Identity, identify};
use crate::plugin::devices::Division;
use crate::state::{NodeState, full_name};

pub use refusal::Refusal;

/// The kubelet gives up after 30 s; a refusal with its reason must arrive before.
const BUDGET: Duration = Duration::from_secs(25);
const LIST_PATIENCE: Duration = Duration::from_secs(8);
const WATCH_PATIENCE: Duration = Duration::from_secs(10);
const GET_PATIENCE: Duration = Duration::from_secs(4);
/// How long to wait for containers that hold the card after their pod ended: most end in this time, which avoids the
/// kubelet's back-off.
const HELD_PATIENCE: Duration = Duration::from_secs(5);

/// Everything that the start of a container needs.
#[derive(Debug)]
pub struct Starter {
    pub checkpoint: PathBuf,
    pub lister: Lister,
    pub state: Arc<NodeState>,
    pub cards: watch::Receiver<Cards>,
    pub files: Arc<SlotFiles>,
    pub cgroups: Cgroups,
    pub driver: DriverSpecs,
    pub dialects: Dialects,
    pub unit: AliyunUnit,
    /// To look up a pod that the watch has not shown; `None` in tests that feed the state themselves.
    pub pods: Option<PodLookup>,
}

/// Reads single pods from the API server.
#[derive(Clone)]
pub struct PodLookup(pub Client);

impl std::fmt::Debug for PodLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PodLookup")
    }
}

impl Starter {
    /// Prepares the start of the container that holds these ids of this resource.
    pub async fn prepare(&self, division: Division, ids: &[String]) -> Result<(), Refusal> {
        timeout(BUDGET, self.prepare_unhurried(division, ids))
            .await
            .unwrap_or(Err(Refusal::TooSlow))
    }

    async fn prepare_unhurried(&self, division: Division, ids: &[String]) -> Result<(), Refusal> {
        let identity = self.identify(division.resource(), ids).await?;
        let pod = self.find_pod(&identity).await?;
        self.prepare_pod(division, &identity, &pod)
            .await
            .map_err(|refusal| refusal.of_pod(&pod))
    }

    async fn identify(&self, resource: &str, ids: &[String]) -> Result<Identity, Refusal> {
        let ids: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let (file, list) = tokio::join!(
            checkpoint::read(&self.checkpoint),
            timeout(LIST_PATIENCE, self.lister.list())
        );
        let file = file?;
        let list = list.unwrap_or(Err(ListError::TooSlow))?;
        let holders = checkpoint::holders(&file, resource, &ids)?;
        let listed = podresources::holders(&list, resource, &ids);
        Ok(identify(ids.len(), holders, &listed)?)
    }

    /// The pod by its uid: from the watch, or else by one GET.
    async fn find_pod(&self, identity: &Identity) -> Result<Arc<PodFacts>, Refusal> {
        if let Some(pod) = self.state.wait_for(&identity.pod, WATCH_PATIENCE).await {
            return Ok(pod);
        }
        if !self.state.listed() {
            return Err(Refusal::NotListed);
        }
        let unknown = || Refusal::UnknownPod(identity.pod.clone());
        let (namespace, name) = identity.name.as_ref().ok_or_else(unknown)?;
        let PodLookup(client) = self.pods.as_ref().ok_or_else(unknown)?;
        let pods: Api<slim::Pod> = Api::namespaced(client.clone(), namespace);
        let pod = timeout(GET_PATIENCE, pods.get_opt(name))
            .await
            .ok()
            .and_then(Result::ok)
            .flatten()
            .map(|pod| PodFacts::new(&pod, &self.dialects));
        pod.filter(|pod| pod.uid == identity.pod)
            .map(Arc::new)
            .ok_or_else(unknown)
    }

    async fn prepare_pod(
        &self,
        division: Division,
        identity: &Identity,
        pod: &Arc<PodFacts>,
    ) -> Result<(), Refusal> {
        if let Err(violations) = &pod.ask {
            return Err(Refusal::Invalid(violations.clone()));
        }
        identity.check(pod, division)?;
        if pod.ended {
            return Err(Refusal::Ended);
        }
        let bound = pod
            .bound(self.state.classes())
            .ok_or(Refusal::NoRecord)?
            .map_err(Refusal::Record)?;
        let cards = self.cards.borrow().known().cloned();
        let cards = cards.ok_or(Refusal::NoCards)?;
        self.check_visible(pod).await?;
        self.admit(&full_name(pod), &bound, &cards).await?;
        self.write_slots(identity, pod, bound, cards).await
    }

    /// The pod's sandbox runs before its first container starts. If its process cannot be seen now, the agent could not
    /// tell later when the containers have ended.
    async fn check_visible(&self, pod: &Arc<PodFacts>) -> Result<(), Refusal> {
        let (cgroups, uid) = (self.cgroups.clone(), pod.uid.clone());
        let wanted = BTreeSet::from([uid.clone()]);
        let alive = tokio::task::spawn_blocking(move || cgroups.alive(&wanted)).await;
        let alive = alive.map_err(|_| Refusal::Stopping)??;
        let visible = alive.contains(&uid);
        visible.then_some(()).ok_or(Refusal::NoProcess)
    }

    /// Admits the pod to its cards. If pods that are leaving still hold them, waits a short time for these to end.
    async fn admit(&self, pod: &str, bound: &BoundPod, cards: &[Card]) -> Result<(), GuardRefusal> {
        let mut changed = self.state.subscribe();
        let deadline = Instant::now() + HELD_PATIENCE;
        loop {
            let refusal = match self.state.admit(pod, bound, cards) {
                Err(refusal @ GuardRefusal::StillHeld { .. }) => refusal,
                other => return other,
            };
            if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
                return Err(refusal);
            }
        }
    }

    /// Writes one file for each container that may be meant, each with that container's share.
    async fn write_slots(
        &self,
        identity: &Identity,
        pod: &Arc<PodFacts>,
        bound: BoundPod,
        cards: Arc<[Card]>,
    ) -> Result<(), Refusal> {
        let (identity, pod) = (identity.clone(), pod.clone());
        let (files, driver, unit) = (self.files.clone(), self.driver.clone(), self.unit);
        let written = tokio::task::spawn_blocking(move || {
            for container in &identity.containers {
                let placed = bound
                    .placement
                    .container(gpu::CLASS, &container.name)
                    .ok_or_else(|| Refusal::NoShare(container.name.clone()))?;
                let env = container_env(&bound.ask, placed, unit, |id| {
                    cards.iter().find(|card| card.id == *id)
                });
                let ours = ContainerEdits {
                    env: env
                        .iter()
                        .map(|(key, value)| format!("{key}={value}"))
                        .collect(),
                    ..ContainerEdits::default()
                };
                let held = placed.shares.iter().map(|share| &share.card);
                let (version, edits) = match driver.edits(&held) {
                    None => (OLDEST_VERSION.to_owned(), ours),
                    Some(driver) => driver.beneath(&ours),
                };
                files.write(&Slot {
                    name: container.slot.clone(),
                    owner: Owner {
                        pod: pod.uid.clone(),
                        pod_name: full_name(&pod),
                        container: container.name.clone(),
                        record: pod.record().unwrap_or_default().to_owned(),
                    },
                    version,
                    edits,
                })?;
            }
            Ok(())
        });
        written.await.unwrap_or(Err(Refusal::Stopping))
    }
}
