//! Changes that would help: each can be tried on a situation, described to a person, and passed to a program.

use std::sync::Arc;

use anyhow::{Context, Result};
use gpushare_core::names::BUDGET_GATE;
use gpushare_core::{NodeName, PodUid};
use json_patch::Patch;
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::Node;
use super::node::Obstacle;
use super::pod::Pod;
use super::verdict::Situation;

/// A change that a user or an operator could make.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    pub(super) text: String,
    /// The command to type, if one line is enough.
    pub(super) command: Option<String>,
    pub(super) act: Act,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Act {
    /// Patch operations on the pod, which is then recreated.
    Pod(Vec<Value>),
    Uncordon(NodeName),
    Untaint {
        node: NodeName,
        key: String,
        place: usize,
    },
    Label {
        node: NodeName,
        key: String,
        value: String,
    },
    /// End all of these pods.
    End(Vec<Ending>),
    RaiseQuota {
        namespace: String,
        name: String,
        counted: String,
        hard: i64,
        written: String,
    },
    /// Work that cannot be done by changing an object.
    Operate {
        what: Operation,
        on: Target,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ending {
    pub(super) pod: PodUid,
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Operation {
    RunAgent,
    RepairCards,
    RepairNode,
    RaiseBudget,
    Create,
}

/// An object of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Target {
    pub(super) kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

impl Target {
    pub(super) fn node(name: &NodeName) -> Self {
        Self::of("Node", None, name.as_str())
    }

    pub(super) fn of(kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }
}

impl Change {
    /// A change of the pod by these operations.
    pub(super) fn of_pod(text: String, operations: Vec<Value>) -> Self {
        Self {
            text,
            command: None,
            act: Act::Pod(operations),
        }
    }

    /// Makes the change in the situation. Returns false if its outcome cannot be predicted.
    pub(super) fn apply(&self, situation: &mut Situation) -> Result<bool> {
        match &self.act {
            Act::Pod(operations) => {
                let object = patched(&situation.pod.object, operations)?;
                situation.pod = Pod::read(object, &situation.cluster.dialects)?;
            }
            Act::Uncordon(node) => change_node(situation, node, Node::uncordon),
            Act::Untaint { node, key, .. } => {
                change_node(situation, node, |node| {
                    node.taints.retain(|taint| taint.key != *key);
                });
            }
            Act::Label { node, key, value } => change_node(situation, node, |node| {
                node.labels.insert(key.clone(), value.clone());
            }),
            Act::End(pods) => {
                let pods: Vec<PodUid> = pods.iter().map(|ending| ending.pod.clone()).collect();
                Arc::make_mut(&mut situation.cluster).end_pods(&pods);
            }
            Act::RaiseQuota {
                name,
                counted,
                hard,
                ..
            } => situation.around.raise_quota(name, counted, *hard),
            Act::Operate { what, on } => return operated(situation, *what, on),
        }
        Ok(true)
    }

    /// The operations of a JSON patch, on the object itself.
    pub(super) fn operations(&self) -> Option<Vec<Value>> {
        Some(match &self.act {
            Act::Pod(operations) => operations.clone(),
            Act::Uncordon(_) => vec![json!({"op": "remove", "path": "/spec/unschedulable"})],
            Act::Untaint { place, .. } => {
                vec![json!({"op": "remove", "path": format!("/spec/taints/{place}")})]
            }
            Act::Label { key, value, .. } => {
                let path = format!("/metadata/labels/{}", escaped(key));
                vec![json!({"op": "add", "path": path, "value": value})]
            }
            Act::RaiseQuota {
                counted, written, ..
            } => {
                let path = format!("/spec/hard/{}", escaped(counted));
                vec![json!({"op": "replace", "path": path, "value": written})]
            }
            Act::End(_) | Act::Operate { .. } => return None,
        })
    }
}

fn change_node(
    situation: &mut Situation,
    name: &NodeName,
    change: impl FnOnce(&mut super::cluster::Node),
) {
    if let Some(mut node) = situation.cluster.nodes.get(name).cloned() {
        change(&mut node);
        Arc::make_mut(&mut situation.cluster).set_node(name, node);
    }
}

fn operated(situation: &mut Situation, what: Operation, on: &Target) -> Result<bool> {
    let name = NodeName::new(&on.name);
    match what {
        Operation::RunAgent => {
            let found =
                super::node::obstacles(&situation.cluster, &situation.pod, &name, &situation.steps);
            let unpublished: Vec<String> = found
                .into_iter()
                .filter_map(|obstacle| match obstacle {
                    Obstacle::Unpublished { resource } => Some(resource),
                    _ => None,
                })
                .collect();
            let known = !unpublished.is_empty();
            change_node(situation, &name, |node| {
                let offered = unpublished.into_iter().map(|resource| (resource, i64::MAX));
                node.allocatable.extend(offered);
            });
            return Ok(known);
        }
        Operation::RepairCards => change_node(situation, &name, |node| {
            let cards = node.cards.iter_mut().flatten().flatten();
            cards.for_each(|card| card.healthy = true);
        }),
        Operation::RepairNode => change_node(situation, &name, |node| {
            let not_ready =
                |key: &str| key.ends_with("/not-ready") || key.ends_with("/unreachable");
            node.taints.retain(|taint| !not_ready(&taint.key));
        }),
        Operation::RaiseBudget => {
            let gates = situation.pod.placing.scheduling_gates.iter();
            let place = gates.into_iter().position(|gate| gate.name == BUDGET_GATE);
            if let Some(place) = place {
                let path = format!("/spec/schedulingGates/{place}");
                let object = patched(
                    &situation.pod.object,
                    &[json!({"op": "remove", "path": path})],
                )?;
                situation.pod = Pod::read(object, &situation.cluster.dialects)?;
            }
        }
        Operation::Create if on.kind == "PersistentVolumeClaim" => {
            situation.around.missing_claims.remove(&on.name);
        }
        Operation::Create => situation.around.missing_class = None,
    }
    Ok(true)
}

pub(super) fn patched(object: &Value, operations: &[Value]) -> Result<Value> {
    let patch: Patch = serde_json::from_value(Value::Array(operations.to_vec()))
        .context("a proposed change is no JSON patch")?;
    let mut object = object.clone();
    json_patch::patch(&mut object, &patch).context("a proposed change does not fit the pod")?;
    Ok(object)
}

/// One part of a JSON pointer.
pub(super) fn escaped(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

fn pointer(path: &[&str]) -> String {
    let parts: Vec<String> = path.iter().map(|part| escaped(part)).collect();
    format!("/{}", parts.join("/"))
}

/// Operations that set a value and create the missing objects above it.
pub(super) fn set(object: &Value, path: &[&str], value: &Value) -> Vec<Value> {
    let mut at = Some(object);
    let mut pointer = String::new();
    let mut parts = path.iter();
    for part in parts.by_ref() {
        pointer.push('/');
        pointer.push_str(&escaped(part));
        at = at.and_then(|at| match at {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        });
        if at.is_none() {
            break;
        }
    }
    let op = if at.is_some() { "replace" } else { "add" };
    let inner = parts
        .rev()
        .fold(value.clone(), |inner, part| json!({*part: inner}));
    vec![json!({"op": op, "path": pointer, "value": inner})]
}

/// Operations that append to a list, and create it if it is missing.
pub(super) fn push(object: &Value, path: &[&str], value: &Value) -> Vec<Value> {
    let pointer = pointer(path);
    if object.pointer(&pointer).is_some_and(Value::is_array) {
        vec![json!({"op": "add", "path": format!("{pointer}/-"), "value": value})]
    } else {
        set(object, path, &json!([value]))
    }
}

/// Operations that remove a value, if it exists.
pub(super) fn remove(object: &Value, path: &[&str]) -> Vec<Value> {
    let pointer = pointer(path);
    let there = object.pointer(&pointer).is_some();
    let operation = there.then(|| json!({"op": "remove", "path": pointer}));
    operation.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(object: &Value, operations: &[Value], expected: &Value) {
        assert_eq!(patched(object, operations).unwrap(), *expected);
    }

    #[test]
    fn a_value_is_set_with_everything_above_it() {
        let pod = json!({"spec": {"containers": [{"name": "c"}]}});
        let path = ["spec", "containers", "0", "resources", "limits", "a/b"];
        let expected = json!({"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"a/b": "1"}}}]}});
        check(&pod, &set(&pod, &path, &json!("1")), &expected);
        let again = json!({"spec": {"containers": [
            {"name": "c", "resources": {"limits": {"a/b": "2"}}}]}});
        check(&expected, &set(&expected, &path, &json!("2")), &again);
    }

    #[test]
    fn a_list_that_is_missing_is_made() {
        let one = json!({"spec": {"tolerations": [1]}});
        let path = ["spec", "tolerations"];
        check(
            &json!({"spec": {}}),
            &push(&json!({"spec": {}}), &path, &json!(1)),
            &one,
        );
        check(
            &one,
            &push(&one, &path, &json!(2)),
            &json!({"spec": {"tolerations": [1, 2]}}),
        );
    }

    #[test]
    fn what_is_not_there_is_not_removed() {
        assert!(remove(&json!({}), &["a"]).is_empty());
        check(
            &json!({"a/b": 1}),
            &remove(&json!({"a/b": 1}), &["a/b"]),
            &json!({}),
        );
    }
}
