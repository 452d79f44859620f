//! Whether the scheduler would let a pod go to a node if there were room for its devices.
//!
//! The scheduler does not say. So what it checks is checked here, for the common cases, on objects read anew; whatever
//! else a pod demands means that we do not know, and whoever does not know says no.

use std::time::Duration;

use gpushare_core::NodeName;
use gpushare_core::dialect::Dialects;
use k8s_openapi::api::core::v1::{Node, NodeSelectorTerm, Pod, PodSpec, Taint, Toleration, Volume};
use kube::{Api, Client};

use crate::PodRef;
use crate::call::{CallError, call};
use crate::labels::Labels;

const TIMEOUT: Duration = Duration::from_secs(5);

/// A pending pod that the scheduler found no node for, and what it demands of one.
#[derive(Clone, Debug, Default)]
pub struct Suitor {
    selector: Vec<(String, String)>,
    /// Alternatives; none is no demand.
    terms: Option<Vec<NodeSelectorTerm>>,
    tolerations: Vec<Toleration>,
}

impl Suitor {
    /// Nothing if the pod is not waiting in vain, or if we cannot judge where it may go.
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
        if !is_plain(spec, dialects) {
            return None;
        }
        let required = spec.affinity.as_ref().and_then(|affinity| {
            let node = affinity.node_affinity.as_ref()?;
            node.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        Some(Self {
            selector: spec.node_selector.clone().into_iter().flatten().collect(),
            terms: required.map(|required| required.node_selector_terms.clone()),
            tolerations: spec.tolerations.clone().unwrap_or_default(),
        })
    }

    /// Whether the pod may go to the node, as far as the node is concerned.
    pub async fn suits(&self, client: &Client, node: &NodeName) -> Result<bool, CallError> {
        let nodes: Api<Node> = Api::all(client.clone());
        let what = || format!("read node {node}");
        let node = call(TIMEOUT, what, nodes.get_opt(node.as_str())).await?;
        Ok(node.is_some_and(|node| self.accepts(&node)))
    }

    fn accepts(&self, node: &Node) -> bool {
        let spec = node.spec.clone().unwrap_or_default();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let selected = |(key, value): &(String, String)| labels.get(key) == Some(value);
        let repels = |taint: &Taint| {
            let tolerated = |toleration: &Toleration| tolerates(toleration, taint);
            taint.effect != "PreferNoSchedule" && !self.tolerations.iter().any(tolerated)
        };
        let labels_known = Labels::from(&labels);
        let matches = |term: &NodeSelectorTerm| matches(term, &labels_known);
        spec.unschedulable != Some(true)
            && self.selector.iter().all(selected)
            && !spec.taints.iter().flatten().any(repels)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.iter().any(matches))
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
    let containers = || {
        let init = spec.init_containers.iter().flatten();
        spec.containers.iter().chain(init)
    };
    let known = |name: &String| {
        matches!(name.as_str(), "cpu" | "memory")
            || dialects.resources().any(|ours| **ours == *name.as_str())
    };
    let mut requests = containers().flat_map(|container| {
        let resources = container.resources.iter();
        resources.flat_map(|resources| resources.requests.iter().flatten())
    });
    let mut ports = containers().flat_map(|container| container.ports.iter().flatten());
    !beside_others
        && !spread.any(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
        && claims == 0
        && !spec.volumes.iter().flatten().any(bound)
        && requests.all(|(name, _)| known(name))
        && !ports.any(|port| port.host_port.is_some_and(|port| port != 0))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    let effect_fits = effect.is_empty() || effect == taint.effect;
    let key_fits = key.is_empty() || key == taint.key;
    let value_fits = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => {
            !key.is_empty() && text(&toleration.value) == text(&taint.value)
        }
        Some(_) => false,
    };
    effect_fits && key_fits && value_fits
}

/// Fields of a node, and comparisons of numbers, are not judged.
fn matches(term: &NodeSelectorTerm, labels: &Labels) -> bool {
    let expressions: Vec<_> = term.match_expressions.iter().flatten().collect();
    let fields = term.match_fields.iter().flatten().count();
    fields == 0
        && !expressions.is_empty()
        && expressions.iter().all(|required| {
            let value = labels.get(&required.key);
            let mut values = required.values.iter().flatten();
            match required.operator.as_str() {
                "In" => value.is_some_and(|value| values.any(|one| one == value)),
                "NotIn" => value.is_none_or(|value| !values.any(|one| one == value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests;
