//! Stand-ins for the controllers that users' manifests need: Deployment to ReplicaSet to Pods, StatefulSet, Job, the
//! status of disruption budgets, and the removal of what belongs to something deleted.
//!
//! Each controller compares an object with what belongs to it and does what is missing. It waits until it sees its own
//! write before it looks again, so nothing is done twice.

mod deployments;
mod disruption;
mod garbage;
mod jobs;
mod owned;
mod replicas;
mod sets;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use gpushare_daemon::Tasks;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Client, Resource};
use tokio::time::Instant;

use crate::mirror::{Change, Key, Mirror};
use owned::controller_of;

/// Wait before a retry after a failure.
const RETRY: Duration = Duration::from_secs(1);

/// Everything that the controllers look at.
pub(crate) struct Controllers {
    client: Client,
    pods: Arc<Mirror<Pod>>,
    deployments: Arc<Mirror<Deployment>>,
    replica_sets: Arc<Mirror<ReplicaSet>>,
    stateful_sets: Arc<Mirror<StatefulSet>>,
    jobs: Arc<Mirror<Job>>,
    budgets: Arc<Mirror<PodDisruptionBudget>>,
}

/// What has to be reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Work {
    Deployment(Key),
    ReplicaSet(Key),
    StatefulSet(Key),
    Job(Key),
    /// The disruption budgets of a namespace.
    Budgets(String),
    /// The owner with this uid is gone.
    Orphans(String),
}

impl Controllers {
    pub(crate) fn start(client: &Client, pods: &Arc<Mirror<Pod>>, tasks: &Tasks) {
        let controllers = Self {
            client: client.clone(),
            pods: Arc::clone(pods),
            deployments: Mirror::start(client, tasks, "the controllers' view of Deployments"),
            replica_sets: Mirror::start(client, tasks, "the controllers' view of ReplicaSets"),
            stateful_sets: Mirror::start(client, tasks, "the controllers' view of StatefulSets"),
            jobs: Mirror::start(client, tasks, "the controllers' view of Jobs"),
            budgets: Mirror::start(client, tasks, "the controllers' view of disruption budgets"),
        };
        let stop = tasks.shutdown().clone();
        tasks.service("the controllers", async move {
            stop.run_until_cancelled(Box::pin(controllers.run())).await;
            Ok::<(), Infallible>(())
        });
    }

    async fn run(&self) {
        let mut pods = self.pods.subscribe();
        let mut deployments = self.deployments.subscribe();
        let mut replica_sets = self.replica_sets.subscribe();
        let mut stateful_sets = self.stateful_sets.subscribe();
        let mut jobs = self.jobs.subscribe();
        let mut budgets = self.budgets.subscribe();
        let mut todo: BTreeSet<Work> = BTreeSet::new();
        let mut later: BTreeMap<Instant, Work> = BTreeMap::new();
        loop {
            let due = later.keys().next().copied();
            let again = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let idle = todo.is_empty();
            // All changes are received first, so that many changes of one object lead to only one look at it.
            tokio::select! {
                biased;
                Some(change) = pods.recv() => { of_pod(&change, &mut todo); continue }
                Some(change) = deployments.recv() => { of(&change, Work::Deployment, &mut todo); continue }
                Some(change) = replica_sets.recv() => { of(&change, Work::ReplicaSet, &mut todo); continue }
                Some(change) = stateful_sets.recv() => { of(&change, Work::StatefulSet, &mut todo); continue }
                Some(change) = jobs.recv() => { of(&change, Work::Job, &mut todo); continue }
                Some(change) = budgets.recv() => { of_budget(&change, &mut todo); continue }
                () = again => todo.extend(later.pop_first().map(|(_, work)| work)),
                () = std::future::ready(()), if !idle => {}
            }
            if let Some(work) = todo.pop_first()
                && let Err(error) = self.look(&work).await
            {
                tracing::warn!(?work, %error, "a controller failed and will look again");
                later.insert(Instant::now() + RETRY, work);
            }
        }
    }

    async fn look(&self, work: &Work) -> Result<(), kube::Error> {
        match work {
            Work::Deployment(key) => self.look_at_deployment(key).await,
            Work::ReplicaSet(key) => self.look_at_replica_set(key).await,
            Work::StatefulSet(key) => self.look_at_stateful_set(key).await,
            Work::Job(key) => self.look_at_job(key).await,
            Work::Budgets(namespace) => self.look_at_budgets(namespace).await,
            Work::Orphans(uid) => self.remove_orphans(uid).await,
        }
    }
}

fn of<K: Resource<DynamicType = ()>>(
    change: &Change<K>,
    work: fn(Key) -> Work,
    todo: &mut BTreeSet<Work>,
) {
    match change {
        Change::Applied(object) => {
            todo.insert(work(Key::of(&**object)));
            todo.extend(controller_of(&**object));
        }
        Change::Deleted(object) => {
            todo.extend(controller_of(&**object));
            let uid = object.meta().uid.clone();
            todo.extend(uid.map(Work::Orphans));
        }
    }
}

fn of_pod(change: &Change<Pod>, todo: &mut BTreeSet<Work>) {
    let (Change::Applied(pod) | Change::Deleted(pod)) = change;
    todo.extend(controller_of(&**pod));
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    todo.insert(Work::Budgets(namespace));
}

fn of_budget(change: &Change<PodDisruptionBudget>, todo: &mut BTreeSet<Work>) {
    if let Change::Applied(budget) = change {
        let namespace = budget.metadata.namespace.clone().unwrap_or_default();
        todo.insert(Work::Budgets(namespace));
    }
}
