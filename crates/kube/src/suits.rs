//! Whether the scheduler would let a pod go to a node if there were room for its devices.
//!
//! The scheduler does not report this, so its rules ([`placing`]) are applied here to objects that are read again. A
//! pod with a demand that these rules do not cover is not judged: no node counts as suitable for it.

use std::time::Duration;

use gpushare_core::NodeName;
use gpushare_core::dialect::Dialects;
use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Volume};
use kube::{Api, Client};

use crate::PodRef;
use crate::call::{CallError, call};
use crate::placing;
use crate::totals::{CPU, MEMORY, PODS, StatedResources};

const TIMEOUT: Duration = Duration::from_secs(5);

/// A pending pod that the scheduler found no node for, and what it demands of one.
#[derive(Clone, Debug)]
pub struct Suitor(PodSpec);

impl Suitor {
    /// `None` if the scheduler has not reported the pod as unschedulable, or if its demands cannot be judged here.
    pub async fn read(
        client: &Client,
        pod: &PodRef,
        dialects: &Dialects,
    ) -> Result<Option<Self>, CallError> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
        let what = || format!("read pod {pod}");
        let read = call(TIMEOUT, what, pods.get_opt(&pod.name)).await?;
        let same = |read: &Pod| read.metadata.uid.as_deref() == Some(pod.uid.as_str());
        Ok(read.filter(same).and_then(|pod| Self::of(&pod, dialects)))
    }

    fn of(pod: &Pod, dialects: &Dialects) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let conditions = pod.status.as_ref()?.conditions.iter().flatten();
        let mut refused = conditions.filter(|condition| {
            condition.type_ == "PodScheduled"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        refused.next()?;
        is_plain(spec, dialects).then(|| Self(spec.clone()))
    }

    /// Whether the pod may go to the node, as far as the node is concerned.
    pub async fn suits(&self, client: &Client, node: &NodeName) -> Result<bool, CallError> {
        let nodes: Api<Node> = Api::all(client.clone());
        let what = || format!("read node {node}");
        let node = call(TIMEOUT, what, nodes.get_opt(node.as_str())).await?;
        Ok(node.is_some_and(|node| self.accepts(&node)))
    }

    fn accepts(&self, node: &Node) -> bool {
        let mut obstacles = placing::obstacles((&self.0).into(), node.into());
        obstacles.next().is_none()
    }
}

/// Whether the pod demands nothing that depends on other pods, volumes, ports or other devices.
fn is_plain(spec: &PodSpec, dialects: &Dialects) -> bool {
    let affinity = spec.affinity.as_ref();
    let beside_others = affinity.is_some_and(|affinity| {
        let near = affinity.pod_affinity.as_ref();
        let far = affinity.pod_anti_affinity.as_ref();
        let near = near.and_then(|near| {
            near.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let far = far.and_then(|far| {
            far.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        near.is_some_and(|terms| !terms.is_empty()) || far.is_some_and(|terms| !terms.is_empty())
    });
    let mut spread = spec.topology_spread_constraints.iter().flatten();
    let claims = spec.resource_claims.iter().flatten().count();
    let bound =
        |volume: &Volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some();
    let known = |name: &String| {
        [CPU, MEMORY, PODS].contains(&name.as_str())
            || dialects.resources().any(|ours| **ours == *name.as_str())
    };
    let requests = StatedResources::from(spec).requests();
    let init = spec.init_containers.iter().flatten();
    let containers = spec.containers.iter().chain(init);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    !beside_others
        && !spread.any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
        && claims == 0
        && !spec.volumes.iter().flatten().any(bound)
        && requests.keys().all(known)
        && !ports.any(|port| port.host_port.is_some_and(|port| port != 0))
}

#[cfg(test)]
mod tests;
