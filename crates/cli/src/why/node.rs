//! One node: everything that keeps the pod off it, according to kube-scheduler's checks and ours.

use std::fmt;

use gpushare_core::{NodeName, PodUid, Steps, Why};
use gpushare_kube::placing::{self, CORDON, Demands, Site};
use gpushare_kube::totals;

use super::cluster::{Cluster, Node};
use super::pod::Pod;

/// Taints that the API server and the node controller put on nodes that are not ready.
const NOT_READY: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    Cordoned,
    NotReady,
    Taint {
        key: String,
        value: String,
        effect: String,
    },
    /// A label of `spec.nodeSelector`.
    Selector {
        key: String,
        value: String,
    },
    Affinity,
    /// The node does not offer one of our resources at all.
    Unpublished {
        resource: String,
    },
    /// Too little of a total is left.
    Total {
        resource: String,
        needed: i64,
        free: i64,
        whole: i64,
    },
    /// The inventory cannot be read.
    Unreadable(String),
    Cards(Why),
}

/// All obstacles; empty if the node can take the pod.
pub(super) fn obstacles(
    cluster: &Cluster,
    pod: &Pod,
    name: &NodeName,
    steps: &Steps,
) -> Vec<Obstacle> {
    let Some(node) = cluster.nodes.get(name) else {
        return Vec::new();
    };
    let mut found = placing(node, pod);
    if let Err(why) = &node.cards {
        found.push(Obstacle::Unreadable(why.clone()));
        return found;
    }
    let cards = cards(cluster, pod, name, steps);
    found.extend(totals(cluster, node, pod, name, cards.as_ref()));
    found.extend(cards.map(Obstacle::Cards));
    found
}

/// Why the pod does not fit on the node's cards.
pub(super) fn cards(cluster: &Cluster, pod: &Pod, name: &NodeName, steps: &Steps) -> Option<Why> {
    let ask = pod.facts.ask.as_ref().ok()?.as_ref()?;
    let ledger = cluster.ledger();
    let uid: &PodUid = &pod.facts.uid;
    let search = ledger.search(ask, steps);
    ledger.fit(name.as_str(), uid, &search).err()
}

/// Obstacles that have nothing to do with resources.
pub(super) fn placing(node: &Node, pod: &Pod) -> Vec<Obstacle> {
    let placing = &pod.placing;
    let demands = Demands::new(
        Some(&placing.node_selector),
        placing.affinity.as_ref(),
        &placing.tolerations,
    );
    let site = Site {
        name: &node.name,
        labels: Some(&node.labels),
        taints: &node.taints,
        cordoned: node.cordoned,
    };
    let found = placing::obstacles(demands, site).map(Obstacle::from);
    let mut found: Vec<Obstacle> = found.collect();
    if found.contains(&Obstacle::Cordoned) {
        found.retain(|one| !one.is_taint_of_cordon());
    }
    // A node that is not ready has several taints, but they are one obstacle.
    found.sort();
    found.dedup();
    found
}

impl From<placing::Obstacle<'_>> for Obstacle {
    fn from(found: placing::Obstacle<'_>) -> Self {
        match found {
            placing::Obstacle::Cordoned => Self::Cordoned,
            placing::Obstacle::Taint(taint) if NOT_READY.contains(&&*taint.key) => Self::NotReady,
            placing::Obstacle::Taint(taint) => Self::Taint {
                key: taint.key.clone(),
                value: taint.value.clone().unwrap_or_default(),
                effect: taint.effect.clone(),
            },
            placing::Obstacle::Label { key, value } => Self::Selector {
                key: key.to_owned(),
                value: value.to_owned(),
            },
            placing::Obstacle::Affinity => Self::Affinity,
        }
    }
}

fn totals(
    cluster: &Cluster,
    node: &Node,
    pod: &Pod,
    name: &NodeName,
    cards: Option<&Why>,
) -> Vec<Obstacle> {
    let mut found = Vec::new();
    let free = |resource: &str| cluster.free(name, resource);
    for (resource, needed) in totals::lacking(&pod.needs, free) {
        let mut dialects = cluster.dialects.resources();
        let ours = dialects.any(|ours| **ours == **resource);
        let whole = node.allocatable.get(resource).copied().unwrap_or(0);
        if ours && matches!(cards, Some(Why::NoCards { .. })) {
            continue;
        }
        if ours && whole == 0 {
            found.push(Obstacle::Unpublished {
                resource: resource.clone(),
            });
        } else if !(ours && cards.is_some()) {
            // If the pod does not fit on the cards, that reason is more precise than the total of our resource.
            found.push(Obstacle::Total {
                resource: resource.clone(),
                needed,
                free: free(resource),
                whole,
            });
        }
    }
    found
}

impl Obstacle {
    /// Cordoning a node adds this taint, and uncordoning removes it.
    fn is_taint_of_cordon(&self) -> bool {
        matches!(self, Self::Taint { key, effect, .. } if key == CORDON && effect == "NoSchedule")
    }

    /// The kind of the obstacle, as a word for programs.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Cordoned => "cordoned",
            Self::NotReady => "not-ready",
            Self::Taint { .. } => "taint",
            Self::Selector { .. } => "node-selector",
            Self::Affinity => "node-affinity",
            Self::Unpublished { .. } => "not-offered",
            Self::Total { .. } => "total",
            Self::Unreadable(_) => "unreadable-inventory",
            Self::Cards(why) => match why {
                Why::NoCards { .. } => "no-cards",
                Why::TooSmall { .. } => "cards-too-small",
                Why::Blocked { by, .. } if by.choice => "card-selectors",
                Why::Blocked { by, .. } if by.health => "card-health",
                Why::Blocked { .. } => "no-room",
                Why::TooComplex { .. } | Why::NotReached { .. } => "undecided",
                Why::BindInProgress { .. } | Why::BindInDoubt { .. } | Why::AlreadyBound { .. } => {
                    "bound"
                }
            },
        }
    }

    /// The obstacle without its numbers, equal for several nodes.
    pub(super) fn common(&self) -> Self {
        match self {
            Self::Total { resource, .. } => Self::Total {
                resource: resource.clone(),
                needed: 0,
                free: 0,
                whole: 0,
            },
            Self::Cards(why) => Self::Cards(why.kind()),
            Self::Unreadable(_) => Self::Unreadable(String::new()),
            other => other.clone(),
        }
    }

    /// How much work it takes to remove the obstacle; least if it goes away by itself.
    pub(super) fn weight(&self) -> u32 {
        match self {
            Self::Cards(Why::Blocked { by, .. }) => {
                u32::from(by.room) + 6 * u32::from(by.choice) + 8 * u32::from(by.health)
            }
            Self::Cordoned => 2,
            Self::Total { .. } => 3,
            Self::Selector { .. } | Self::Affinity => 4,
            Self::Taint { .. } => 5,
            Self::NotReady => 9,
            Self::Cards(Why::TooComplex { .. } | Why::NotReached { .. }) => 10,
            Self::Cards(Why::TooSmall { .. }) => 20,
            Self::Unpublished { .. } | Self::Unreadable(_) => 30,
            Self::Cards(Why::NoCards { .. }) => 100,
            Self::Cards(_) => 0,
        }
    }

    /// How much is missing, comparable among obstacles of one kind.
    pub(super) fn lack(&self) -> u64 {
        match self {
            Self::Total { needed, free, .. } => needed.saturating_sub(*free).unsigned_abs(),
            Self::Cards(why) => why.lack(),
            _ => 0,
        }
    }

    /// The reason in words that fit several nodes, of which this one lacks least.
    pub(super) fn of_several(&self) -> String {
        match self {
            Self::Cards(why) => why.of_several(),
            Self::Total {
                resource,
                needed,
                free,
                ..
            } => {
                let written = |amount| totals::text(resource, amount);
                let (needed, free) = (written(*needed), written((*free).max(0)));
                format!("too little {resource}: {needed} needed, at most {free} left")
            }
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cordoned => f.write_str("cordoned"),
            Self::NotReady => f.write_str("not ready"),
            Self::Taint { key, value, effect } => {
                let value = if value.is_empty() {
                    String::new()
                } else {
                    format!("={value}")
                };
                write!(
                    f,
                    "the taint {key}{value}:{effect} is not tolerated by the pod"
                )
            }
            Self::Selector { key, value } => {
                write!(
                    f,
                    "the label {key}={value} of the pod's nodeSelector is missing"
                )
            }
            Self::Affinity => f.write_str("excluded by the pod's required node affinity"),
            Self::Unpublished { resource } => write!(
                f,
                "{resource} is not offered (is the gpushare node agent running there?)"
            ),
            Self::Total {
                resource,
                needed,
                free,
                whole,
            } => {
                let written = |amount: i64| totals::text(resource, amount.max(0));
                let (needed, free, whole) = (written(*needed), written(*free), written(*whole));
                write!(
                    f,
                    "too little {resource}: {needed} needed, {free} of {whole} left"
                )
            }
            Self::Unreadable(why) => write!(f, "the cards cannot be read: {why}"),
            Self::Cards(why) => why.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests;
