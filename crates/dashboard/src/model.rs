//! What the dashboard knows of the cluster, as the watches last showed it: the books of the core, and names.
//!
//! No clock and no network here. Every change is recorded, so that the feed needs to look only at what changed.

mod pods;

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::dialect::Dialects;
use gpushare_core::{Card, HeldPod, Ledger, NodeName, PodUid};
use gpushare_kube::convert;
use gpushare_kube::gpu_budget::GpuBudget;
use gpushare_kube::labels::Labels;
use gpushare_kube::slim;

pub(crate) use pods::{About, AllocationState, Pod, PodName};

const NODES: &str = "nodes";
const PODS: &str = "pods";
const BUDGETS: &str = "budgets";
const NAMESPACES: &str = "namespaces";

#[derive(Debug)]
pub(crate) struct Model {
    dialects: Dialects,
    ledger: Ledger,
    nodes: BTreeMap<NodeName, Node>,
    pods: BTreeMap<PodUid, Pod>,
    budgets: BTreeMap<String, GpuBudget>,
    namespaces: BTreeMap<String, Labels>,
    /// The kinds that have not been listed yet.
    missing: BTreeSet<&'static str>,
    changes: Changes,
}

/// A node whose agent has published cards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) cordoned: bool,
    /// Its cards, or why they are not known.
    pub(crate) cards: Result<Vec<Card>, String>,
    /// What containers still hold after their pods are gone.
    held: Vec<HeldPod>,
}

/// A node as read from its object; `None` if no agent has published cards on it.
pub(crate) type ObservedNode = (NodeName, Option<Node>);

/// What has changed since the changes were last taken.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) nodes: BTreeSet<NodeName>,
    pub(crate) pending: bool,
    pub(crate) budgets: bool,
}

impl Changes {
    pub(crate) fn any(&self) -> bool {
        !self.nodes.is_empty() || self.pending || self.budgets
    }
}

impl Model {
    pub(crate) fn new(dialects: Dialects) -> Self {
        Self {
            ledger: Ledger::new(dialects.classes.clone()),
            dialects,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            budgets: BTreeMap::new(),
            namespaces: BTreeMap::new(),
            missing: [NODES, PODS, BUDGETS, NAMESPACES].into(),
            changes: Changes::default(),
        }
    }

    pub(crate) fn dialects(&self) -> &Dialects {
        &self.dialects
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub(crate) fn nodes(&self) -> &BTreeMap<NodeName, Node> {
        &self.nodes
    }

    pub(crate) fn pod(&self, uid: &PodUid) -> Option<&Pod> {
        self.pods.get(uid)
    }

    pub(crate) fn pods(&self) -> impl Iterator<Item = (&PodUid, &Pod)> {
        self.pods.iter()
    }

    pub(crate) fn pod_named(&self, namespace: &str, name: &str) -> Option<(&PodUid, &Pod)> {
        let mut pods = self.pods.iter();
        pods.find(|(_, pod)| {
            let title = pod.title();
            title.namespace == namespace && title.name == name
        })
    }

    pub(crate) fn budgets(&self) -> &BTreeMap<String, GpuBudget> {
        &self.budgets
    }

    pub(crate) fn namespaces(&self) -> &BTreeMap<String, Labels> {
        &self.namespaces
    }

    /// Whether there is something to show, or what is missing.
    pub(crate) fn ready(&self) -> Result<(), String> {
        match self.missing.first() {
            Some(missing) => Err(format!("the {missing} have not been listed yet")),
            None => Ok(()),
        }
    }

    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    pub(crate) fn see_node(&self, node: &slim::Node) -> ObservedNode {
        let name = NodeName::new(node.metadata.name.as_deref().unwrap_or_default());
        let classes = &self.dialects.classes;
        let cards = convert::cards(node, classes);
        let cards = cards.map_err(|error| error.to_string()).transpose();
        // If it is unknown what is still held, it is unknown what is free.
        let (held, unknown) = match convert::held(node, classes) {
            Ok(held) => (held, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let node = cards.map(|cards| Node {
            cordoned: node.spec.unschedulable,
            cards: unknown.map_or(cards, Err),
            held,
        });
        (name, node)
    }

    pub(crate) fn set_node(&mut self, (name, node): ObservedNode) {
        let Some(node) = node else {
            self.remove_node(&name);
            return;
        };
        if self.nodes.get(&name) == Some(&node) {
            return;
        }
        match &node.cards {
            Ok(cards) => {
                self.ledger.set_node(&name, cards.clone());
                self.ledger.set_held(&name, node.held.clone());
            }
            Err(_) => self.ledger.remove_node(name.as_str()),
        }
        self.changes.nodes.insert(name.clone());
        self.changes.pending = true;
        self.nodes.insert(name, node);
    }

    pub(crate) fn remove_node(&mut self, name: &NodeName) {
        if self.nodes.remove(name).is_some() {
            self.ledger.remove_node(name.as_str());
            self.changes.nodes.insert(name.clone());
            self.changes.pending = true;
        }
    }

    pub(crate) fn replace_nodes(&mut self, seen: Vec<ObservedNode>) {
        for name in unlisted(&self.nodes, &seen) {
            self.remove_node(&name);
        }
        for node in seen {
            self.set_node(node);
        }
        self.missing.remove(NODES);
    }

    pub(crate) fn set_budget(&mut self, name: String, budget: GpuBudget) {
        self.budgets.insert(name, budget);
        self.changes.budgets = true;
    }

    pub(crate) fn remove_budget(&mut self, name: &str) {
        self.budgets.remove(name);
        self.changes.budgets = true;
    }

    pub(crate) fn replace_budgets(&mut self, budgets: BTreeMap<String, GpuBudget>) {
        self.budgets = budgets;
        self.missing.remove(BUDGETS);
        self.changes.budgets = true;
    }

    pub(crate) fn set_namespace(&mut self, name: String, labels: Labels) {
        self.changes.budgets |= self.namespaces.get(&name) != Some(&labels);
        self.namespaces.insert(name, labels);
    }

    pub(crate) fn remove_namespace(&mut self, name: &str) {
        self.changes.budgets |= self.namespaces.remove(name).is_some();
    }

    pub(crate) fn replace_namespaces(&mut self, namespaces: BTreeMap<String, Labels>) {
        self.namespaces = namespaces;
        self.missing.remove(NAMESPACES);
        self.changes.budgets = true;
    }
}

/// The keys of what is known and not in a new list.
fn unlisted<K: Ord + Clone, V, S>(known: &BTreeMap<K, V>, listed: &[(K, S)]) -> Vec<K> {
    let listed: BTreeSet<&K> = listed.iter().map(|(key, _)| key).collect();
    let unlisted = known.keys().filter(|key| !listed.contains(key));
    unlisted.cloned().collect()
}

#[cfg(test)]
pub(crate) mod tests;
