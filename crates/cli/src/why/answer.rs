//! The answer for programs; the text for people is made from the same data.

use gpushare_core::NodeName;
use gpushare_core::explain::MOST_NAMED;
use serde::Serialize;
use serde_json::{Value, json};

use super::change::{Act, Change, Operation, Target};
use super::node::Obstacle;
use super::plan::Plan;
use super::subject::Owner;
use super::verdict::Group;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) pod: Target,
    pub(super) standing: PodStatus,
    /// What stands in the pod's way, in one word for programs; `None` if nothing does.
    pub(super) reason: Option<String>,
    /// The same for people, in full sentences.
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// Alternatives. Each of them lets the pod run if it is `certain`; otherwise it is a step in that direction.
    pub(super) help: Vec<Help>,
    /// The pod is retried automatically when there is room.
    pub(super) waits: bool,
    pub(super) groups: Vec<GroupReport>,
    /// What kube-scheduler said last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scheduler: Option<String>,
    /// What could not be checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PodStatus {
    /// The pod does not exist; the answer says what would happen.
    Proposed,
    Pending,
    /// The pod has a node, but does not run there yet.
    Bound,
    Running,
    Finished,
    Deleting,
}

/// One solution: all of its steps, in this order.
#[derive(Debug, Serialize)]
pub(super) struct Help {
    pub(super) text: String,
    /// Afterwards the pod fits, as far as is known now.
    pub(super) certain: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Step {
    pub(super) text: String,
    pub(super) action: Action,
    pub(super) target: Target,
    /// A JSON patch of the target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) patch: Option<Vec<Value>>,
    /// What an operator has to do that no patch can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) operation: Option<Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) command: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Action {
    /// Patch the object; a pod is recreated with the patch.
    Patch,
    Delete,
    Operate,
}

#[derive(Debug, Serialize)]
pub(super) struct GroupReport {
    pub(super) count: usize,
    /// Some of the nodes; the one that lacks least comes first.
    pub(super) nodes: Vec<NodeName>,
    pub(super) reason: String,
    pub(super) obstacles: Vec<&'static str>,
}

impl GroupReport {
    pub(super) fn new(group: &Group) -> Self {
        Self {
            count: group.nodes.len(),
            nodes: group.nodes.iter().take(MOST_NAMED).cloned().collect(),
            reason: group.reason(),
            obstacles: group.obstacles.iter().map(Obstacle::kind).collect(),
        }
    }
}

impl Help {
    /// If there is an owner, changes of the pod are made to its template.
    pub(super) fn new(plan: &Plan, pod: &Target, owner: Option<&Owner>) -> Self {
        let changes = plan.changes.iter();
        let texts: Vec<&str> = changes.clone().map(|change| change.text.as_str()).collect();
        Self {
            text: texts.join(", and "),
            certain: plan.certain,
            steps: changes
                .flat_map(|change| steps(change, pod, owner))
                .collect(),
        }
    }
}

fn steps(change: &Change, pod: &Target, owner: Option<&Owner>) -> Vec<Step> {
    let step = |action, target| Step {
        text: change.text.clone(),
        action,
        target,
        patch: change.operations(),
        operation: None,
        command: change.command.clone(),
    };
    match &change.act {
        Act::Pod(operations) => {
            let target = owner.map_or(pod, |owner| &owner.target).clone();
            let prefix = owner.map_or("", |owner| owner.manifest.path);
            let moved = operations.iter().map(|operation| below(operation, prefix));
            vec![Step {
                patch: Some(moved.collect()),
                ..step(Action::Patch, target)
            }]
        }
        Act::Uncordon(node) | Act::Untaint { node, .. } | Act::Label { node, .. } => {
            vec![step(Action::Patch, Target::node(node))]
        }
        Act::RaiseQuota {
            namespace, name, ..
        } => vec![step(
            Action::Patch,
            Target::of("ResourceQuota", Some(namespace), name),
        )],
        Act::End(pods) => pods
            .iter()
            .map(|ending| Step {
                text: format!("end the pod {}/{}", ending.namespace, ending.name),
                command: Some(format!(
                    "kubectl -n {} delete pod {}",
                    ending.namespace, ending.name
                )),
                ..step(
                    Action::Delete,
                    Target::of("Pod", Some(&ending.namespace), &ending.name),
                )
            })
            .collect(),
        Act::Operate { what, on } => vec![Step {
            operation: Some(*what),
            ..step(Action::Operate, on.clone())
        }],
    }
}

/// The same operation for an object that contains the pod at this path.
fn below(operation: &Value, prefix: &str) -> Value {
    let mut moved = operation.clone();
    let path = operation
        .get("path")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if let Some(at) = moved.get_mut("path") {
        *at = json!(format!("{prefix}{path}"));
    }
    moved
}
