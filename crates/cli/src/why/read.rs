//! Reads what an answer needs from the API server, and nothing more.

use anyhow::Result;
use gpushare_core::dialect::Dialects;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::gpu_budget::select::{self, Choice};
use gpushare_kube::labels::Labels;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::{Event, Namespace, PersistentVolumeClaim, ResourceQuota};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt};

use super::cluster::Cluster;
use super::pod::{DEFAULT_SCHEDULER, Pod};
use super::surroundings::{Budget, Quota, Surroundings};
use crate::connection::{self, NODES, Only, said};

pub(super) async fn cluster(client: &Client, dialects: Dialects) -> Result<Cluster> {
    let mut cluster = Cluster::new(dialects);
    connection::each(client, NODES, Only::Everything, |node: core::Node| {
        cluster.add_node(&node);
        Ok(())
    })
    .await?;
    connection::each_pod(client, |pod| cluster.add_pod(pod)).await?;
    Ok(cluster)
}

/// Adds a note if quotas, priority classes or volume claims cannot be read, because they may be the reason.
pub(super) async fn surroundings(
    client: &Client,
    pod: &Pod,
    exists: bool,
    notes: &mut Vec<String>,
) -> Surroundings {
    let namespace = pod.facts.namespace.as_str();
    let mut around = Surroundings::default();
    if !exists {
        let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
        match quotas.list(&ListParams::default()).await {
            Ok(list) => around.quotas = list.items.iter().filter_map(Quota::read).collect(),
            Err(error) => notes.push(format!(
                "quotas of {namespace} were not looked at: {}",
                said(&error)
            )),
        }
        if let Some(name) = &pod.placing.priority_class_name {
            let classes: Api<PriorityClass> = Api::all(client.clone());
            let class = classes.get_opt(name).await;
            let missing =
                noted(class, "priority classes", notes).is_some_and(|found| found.is_none());
            around.missing_class = missing.then(|| name.clone());
        }
    }
    for claim in pod.claims() {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace);
        let found = noted(claims.get_opt(claim).await, "volume claims", notes);
        if found.is_some_and(|found| found.is_none()) {
            around.missing_claims.insert(claim.to_owned());
        }
    }
    let gated = !pod.placing.scheduling_gates.is_empty();
    if gated {
        around.budget = budget(client, namespace).await;
    }
    around.unknown_scheduler = unknown_scheduler(client, pod, exists).await;
    around
}

fn noted<T>(answer: kube::Result<T>, what: &str, notes: &mut Vec<String>) -> Option<T> {
    answer
        .map_err(|error| notes.push(format!("{what} were not looked at: {}", said(&error))))
        .ok()
}

/// The budget that the namespace pays from; `None` if there is none or it cannot be read.
async fn budget(client: &Client, namespace: &str) -> Option<Budget> {
    let budgets: Api<GpuBudget> = Api::all(client.clone());
    let budgets = budgets.list(&ListParams::default()).await.ok()?.items;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let labels = namespaces.get(namespace).await.ok()?.metadata.labels;
    let labels = labels.as_ref().map(Labels::from).unwrap_or_default();
    let Choice::Budget(budget) = select::choose(&budgets, namespace, &labels) else {
        return None;
    };
    let status = serde_json::to_value(budget.status.as_ref()).unwrap_or_default();
    let text = |field: &str| Some(status.get(field)?.as_str()?.to_owned());
    Some(Budget {
        name: budget.name_any(),
        used: text("used"),
        resets: text("periodEnd"),
    })
}

/// The pod's scheduler, if it has neither tried this pod nor placed any other.
async fn unknown_scheduler(client: &Client, pod: &Pod, exists: bool) -> Option<String> {
    let name = pod.scheduler();
    if name == DEFAULT_SCHEDULER || (exists && pod.scheduled_condition().is_some()) {
        return None;
    }
    let pods: Api<core::Pod> = Api::all(client.clone());
    let fields = format!("spec.schedulerName={name}");
    let alike = pods
        .list(&ListParams::default().fields(&fields))
        .await
        .ok()?;
    let placed = |pod: &core::Pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some())
    };
    (!alike.items.iter().any(placed)).then(|| name.to_owned())
}

/// Whether the pod has a node on which it can never start: a node that does not exist, or one that was written by hand,
/// so that no card was chosen.
pub(super) async fn is_misplaced(client: &Client, pod: &Pod) -> bool {
    let phase = pod.text("/status/phase");
    let Some(node) = pod
        .facts
        .node
        .as_ref()
        .filter(|_| phase.is_none_or(|phase| phase == "Pending"))
    else {
        return false;
    };
    if pod.facts.is_past_scheduler() {
        return true;
    }
    let nodes: Api<core::Node> = Api::all(client.clone());
    matches!(nodes.get_opt(node.as_str()).await, Ok(None))
}

/// Why a controller could not create pods: the newest such event on it or on what it created.
pub(super) async fn refused_creation(
    client: &Client,
    namespace: &str,
    owner: &str,
) -> Option<String> {
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().fields("reason=FailedCreate");
    let events = events.list(&params).await.ok()?.items;
    let made = format!("{owner}-");
    let concerned = |event: &&Event| {
        let name = event.involved_object.name.as_deref().unwrap_or_default();
        name == owner || name.starts_with(&made)
    };
    let newest = events.iter().filter(concerned).max_by_key(|event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0);
        last.or(event
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0))
    })?;
    newest.message.clone()
}
