//! Candidate changes that might remove an obstacle; the plans keep those that work.

use gpushare_core::names::{ALLOCATION, BUDGET_GATE, GPU};
use gpushare_core::{NodeName, PodUid, Why};
use gpushare_kube::totals;
use serde_json::json;

use super::change::{Act, Change, Ending, Operation, Target, push, remove, set};
use super::node::{self, Obstacle};
use super::pod::DEFAULT_SCHEDULER;
use super::request;
use super::surroundings::Shortage;
use super::verdict::{Block, Situation};

/// Candidate changes, the easiest first.
pub(super) fn of_block(situation: &Situation, block: &Block) -> Vec<Change> {
    let pod = &situation.pod;
    match block {
        Block::Invalid(violations) => {
            let first = violations.0.first();
            let mistakes =
                first.map(|first| request::corrections(pod, &situation.cluster.dialects, first));
            mistakes.unwrap_or_default()
        }
        Block::Gate(gate) if gate == BUDGET_GATE => {
            let budget = situation.around.budget.as_ref();
            let name = budget.map_or("of the namespace", |budget| budget.name.as_str());
            vec![Change {
                text: format!("grant GPU time to the budget {name}, or wait for its next period"),
                command: budget
                    .map(|_| format!("kubectl gpushare budget grant {name} 1h --reason TEXT")),
                act: Act::Operate {
                    what: Operation::RaiseBudget,
                    on: Target::of("GpuBudget", None, name),
                },
            }]
        }
        Block::Gate(gate) => {
            let gates = &pod.placing.scheduling_gates;
            let place = gates.iter().position(|found| found.name == *gate);
            let place = place.unwrap_or_default().to_string();
            let operations = remove(&pod.object, &["spec", "schedulingGates", &place]);
            let text = format!("remove the scheduling gate {gate}");
            vec![Change::of_pod(text, operations)]
        }
        Block::NoScheduler => {
            let path = ["spec", "schedulerName"];
            let operations = set(&pod.object, &path, &json!(DEFAULT_SCHEDULER));
            let text = format!("set spec.schedulerName to {DEFAULT_SCHEDULER}");
            vec![Change::of_pod(text, operations)]
        }
        Block::NoSuchNode(_) | Block::PastScheduler(_) => {
            let mut operations = remove(&pod.object, &["spec", "nodeName"]);
            let record = remove(&pod.object, &["metadata", "annotations", ALLOCATION]);
            let text = if record.is_empty() {
                "remove spec.nodeName".to_owned()
            } else {
                // The API server accepts records only from the extender.
                format!("remove spec.nodeName and the annotation {ALLOCATION}")
            };
            operations.extend(record);
            vec![Change::of_pod(text, operations)]
        }
        Block::NoPriorityClass(name) => {
            let mut operations = remove(&pod.object, &["spec", "priorityClassName"]);
            operations.extend(remove(&pod.object, &["spec", "priority"]));
            let text = "remove spec.priorityClassName".to_owned();
            let missing = Target::of("PriorityClass", None, name);
            vec![Change::of_pod(text, operations), create(missing)]
        }
        Block::NoVolumeClaim(name) => {
            let namespace = Some(pod.facts.namespace.as_str());
            vec![create(Target::of("PersistentVolumeClaim", namespace, name))]
        }
        Block::Quota(shortage) => quota(situation, shortage),
    }
}

fn create(missing: Target) -> Change {
    let text = format!("create the {} {}", missing.kind, missing.name);
    operate(Operation::Create, missing, text)
}

fn quota(situation: &Situation, shortage: &Shortage) -> Vec<Change> {
    let Shortage {
        quota,
        counted,
        resource,
        hard,
        ..
    } = shortage;
    let enough = shortage.enough();
    let written = totals::text(resource, enough);
    let raise = Change {
        text: format!("raise {counted} of the quota {quota} to {written}"),
        command: None,
        act: Act::RaiseQuota {
            namespace: situation.pod.facts.namespace.clone(),
            name: quota.clone(),
            counted: counted.clone(),
            hard: enough,
            written,
        },
    };
    let mut changes = request::lower(&situation.pod, resource, enough.saturating_sub(*hard));
    changes.push(raise);
    changes
}

/// Candidate changes that might remove an obstacle on a node.
pub(super) fn of_obstacle(
    situation: &Situation,
    name: &NodeName,
    obstacle: &Obstacle,
) -> Vec<Change> {
    let pod = &situation.pod;
    match obstacle {
        Obstacle::Cordoned => vec![Change {
            text: format!("uncordon the node {name}"),
            command: Some(format!("kubectl uncordon {name}")),
            act: Act::Uncordon(name.clone()),
        }],
        Obstacle::NotReady => vec![operate(
            Operation::RepairNode,
            Target::node(name),
            format!("bring the node {name} back: its kubelet does not report that it is ready"),
        )],
        Obstacle::Taint { key, value, effect } => {
            let toleration = if value.is_empty() {
                json!({"key": key, "operator": "Exists", "effect": effect})
            } else {
                json!({"key": key, "operator": "Equal", "value": value, "effect": effect})
            };
            let operations = push(&pod.object, &["spec", "tolerations"], &toleration);
            let text = format!("tolerate the taint: add {toleration} to spec.tolerations");
            let mut changes = vec![Change::of_pod(text, operations)];
            let taints = situation.cluster.nodes.get(name).map(|node| &node.taints);
            let place = taints.and_then(|all| all.iter().position(|taint| taint.key == *key));
            changes.extend(place.map(|place| Change {
                text: format!("remove the taint {key} from the node {name}"),
                command: Some(format!("kubectl taint node {name} {key}:{effect}-")),
                act: Act::Untaint {
                    node: name.clone(),
                    key: key.clone(),
                    place,
                },
            }));
            changes
        }
        Obstacle::Selector { key, value } => {
            let operations = remove(&pod.object, &["spec", "nodeSelector", key]);
            vec![
                Change::of_pod(format!("remove {key} from spec.nodeSelector"), operations),
                Change {
                    text: format!("label the node {name} with {key}={value}"),
                    command: Some(format!("kubectl label node {name} {key}={value}")),
                    act: Act::Label {
                        node: name.clone(),
                        key: key.clone(),
                        value: value.clone(),
                    },
                },
            ]
        }
        Obstacle::Affinity => {
            let required = "requiredDuringSchedulingIgnoredDuringExecution";
            let path = ["spec", "affinity", "nodeAffinity", required];
            let field = path.join(".");
            vec![Change::of_pod(
                format!("remove or widen {field}"),
                remove(&pod.object, &path),
            )]
        }
        Obstacle::Unpublished { .. } | Obstacle::Unreadable(_) => vec![run_agent(name)],
        Obstacle::Total {
            resource,
            needed,
            free,
            ..
        } => total(situation, name, resource, needed.saturating_sub(*free)),
        Obstacle::Cards(why) => cards(situation, name, why),
    }
}

fn operate(what: Operation, on: Target, text: String) -> Change {
    Change {
        text,
        command: None,
        act: Act::Operate { what, on },
    }
}

fn run_agent(name: &NodeName) -> Change {
    let text =
        format!("run the gpushare node agent on {name}, so that it offers {GPU} and the others");
    operate(Operation::RunAgent, Target::node(name), text)
}

fn total(situation: &Situation, name: &NodeName, resource: &str, missing: i64) -> Vec<Change> {
    let mut changes = request::lower(&situation.pod, resource, missing);
    let holders = situation.cluster.holders_of(name, resource, missing);
    changes.extend(holders.map(|pods| end(situation, name, pods)));
    changes
}

fn end(situation: &Situation, node: &NodeName, pods: Vec<PodUid>) -> Change {
    let pods = pods.into_iter().filter_map(|pod| {
        let holder = situation.cluster.pods.get(&pod)?;
        let (namespace, name) = (holder.namespace.clone(), holder.name.clone());
        Some(Ending {
            pod,
            namespace,
            name,
        })
    });
    let pods: Vec<Ending> = pods.collect();
    let named: Vec<String> = pods
        .iter()
        .map(|pod| format!("{}/{}", pod.namespace, pod.name))
        .collect();
    let command = match pods.as_slice() {
        [one] => Some(format!(
            "kubectl -n {} delete pod {}",
            one.namespace, one.name
        )),
        _ => None,
    };
    let s = if named.len() == 1 { "" } else { "s" };
    Change {
        text: format!("end the pod{s} {} on {node}", named.join(", ")),
        command,
        act: Act::End(pods),
    }
}

fn cards(situation: &Situation, name: &NodeName, why: &Why) -> Vec<Change> {
    let Situation {
        cluster,
        pod,
        steps,
        ..
    } = situation;
    let dialects = &cluster.dialects;
    let less = || {
        request::less(pod, dialects, |pod| {
            pod.facts.ask.is_ok() && node::cards(cluster, pod, name, steps).is_none()
        })
    };
    match why {
        Why::NoCards { .. } => vec![run_agent(name)],
        Why::TooSmall { .. } | Why::TooComplex { .. } => less(),
        Why::Blocked { by, .. } => {
            let mut changes = Vec::new();
            if by.choice {
                let choosers = dialects.choosers.iter();
                let annotations = choosers.map(|chooser| &*chooser.annotation);
                changes.extend(
                    annotations
                        .filter_map(|annotation| request::remove_annotation(pod, annotation)),
                );
            }
            if by.health {
                let text = format!("repair or replace the unhealthy cards of {name}");
                changes.push(operate(Operation::RepairCards, Target::node(name), text));
            }
            if by.room {
                changes.extend(less());
                let ask = pod.facts.ask.as_ref().ok().and_then(Option::as_ref);
                let ending =
                    ask.and_then(|ask| cluster.in_the_way(name, &pod.facts.uid, ask, steps));
                changes.extend(ending.map(|pods| end(situation, name, pods)));
            }
            changes
        }
        Why::NotReached { .. }
        | Why::BindInProgress { .. }
        | Why::BindInDoubt { .. }
        | Why::AlreadyBound { .. } => Vec::new(),
    }
}
