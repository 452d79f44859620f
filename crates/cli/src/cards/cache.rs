//! What nodes and pods report about cards, indexed so that a list and a watch can fill it in the same way.

use std::collections::BTreeMap;

use gpushare_core::dialect::Dialects;
use gpushare_core::ledger::BoundPod;
use gpushare_core::{Card, Classes, HeldPod, Ledger, NodeName, PodUid};
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::slim;

#[derive(Debug)]
pub(super) struct CardCache {
    dialects: Dialects,
    nodes: BTreeMap<NodeName, Result<Published, String>>,
    pods: BTreeMap<PodUid, Holder>,
}

/// What a node's agent has published.
#[derive(Debug)]
struct Published {
    cards: Vec<Card>,
    /// Held by containers whose pods are gone.
    held: Vec<HeldPod>,
}

/// A pod whose record says that it holds cards.
#[derive(Debug)]
pub(super) struct Holder {
    pub(super) namespace: String,
    pub(super) name: String,
    bound: BoundPod,
}

/// Keeps what objects of a kind report.
pub(super) trait Keeps<K> {
    /// The plural that messages call the kind.
    const KIND: &'static str;

    fn set(&mut self, object: &K);

    fn remove(&mut self, object: &K);

    fn clear(&mut self);

    /// Takes a complete list; objects that are not in it no longer exist.
    fn replace(&mut self, objects: &[K]) {
        self.clear();
        for object in objects {
            self.set(object);
        }
    }
}

impl Keeps<slim::Node> for CardCache {
    const KIND: &'static str = "nodes";

    fn set(&mut self, node: &slim::Node) {
        let classes = &self.dialects.classes;
        let held = convert::held(node, classes).map_err(|error| error.to_string());
        let name = NodeName::new(node.metadata.name.as_deref().unwrap_or_default());
        match convert::cards(node, classes) {
            Ok(Some(cards)) => {
                let published = held.map(|held| Published { cards, held });
                self.nodes.insert(name, published)
            }
            Ok(None) => self.nodes.remove(&name),
            Err(error) => self.nodes.insert(name, Err(error.to_string())),
        };
    }

    fn remove(&mut self, node: &slim::Node) {
        let name = node.metadata.name.as_deref();
        self.nodes.remove(name.unwrap_or_default());
    }

    fn clear(&mut self) {
        self.nodes.clear();
    }
}

impl Keeps<slim::Pod> for CardCache {
    const KIND: &'static str = "pods";

    fn set(&mut self, pod: &slim::Pod) {
        let facts = PodFacts::new(pod, &self.dialects);
        let bound = facts.bound(&self.dialects.classes).and_then(Result::ok);
        match bound.filter(|_| !facts.ended) {
            Some(bound) => {
                let holder = Holder {
                    namespace: facts.namespace,
                    name: facts.name,
                    bound,
                };
                self.pods.insert(facts.uid, holder);
            }
            None => {
                self.pods.remove(&facts.uid);
            }
        }
    }

    fn remove(&mut self, pod: &slim::Pod) {
        let uid = pod.metadata.uid.as_deref();
        self.pods.remove(uid.unwrap_or_default());
    }

    fn clear(&mut self) {
        self.pods.clear();
    }
}

impl CardCache {
    pub(super) fn new(dialects: Dialects) -> Self {
        Self {
            dialects,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    pub(super) fn classes(&self) -> &Classes {
        &self.dialects.classes
    }

    pub(super) fn holder(&self, pod: &PodUid) -> Option<&Holder> {
        self.pods.get(pod)
    }

    /// Nodes whose inventory cannot be read, and why.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = (&NodeName, &str)> {
        let nodes = self.nodes.iter();
        nodes.filter_map(|(name, cards)| Some((name, cards.as_ref().err()?.as_str())))
    }

    /// A ledger with the same bookings as the extender's.
    pub(super) fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::new(self.dialects.classes.clone());
        for (name, published) in &self.nodes {
            if let Ok(Published { cards, held }) = published {
                ledger.set_node(name, cards.clone());
                ledger.set_held(name, held.clone());
            }
        }
        for holder in self.pods.values() {
            ledger.confirm(holder.bound.clone());
        }
        ledger
    }
}
