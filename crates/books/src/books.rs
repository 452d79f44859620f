//! What the extender knows: the ledger, and an index of the pods and nodes that matter.
//!
//! Plain synchronous methods, one per thing that can happen. No clock, no network, no lock: callers
//! bring the time and hold the lock. The API server's word (watch and reads) always wins over what
//! binds in progress believe, with one exception: a record that was believed once is not exchanged for
//! another one on the same node, because the containers already hold the first card.

mod binds;
mod contenders;
mod growth;
mod lessons;
mod node_set;
mod pods;
mod preemptions;
mod reads;
mod verdicts;
mod waiting;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use gpushare_core::card::Card;
use gpushare_core::preempt::Rank;
use gpushare_core::{Classes, HeldPod, Host, Ledger, NodeName, PodAsk, PodUid, Steps};
use gpushare_kube::convert::{PodFacts, PreemptionFacts};
use gpushare_packing::Packing;
use gpushare_packing::{Policy, Rankings};
use parking_lot::Mutex;
use tokio::sync::Notify;

use contenders::Contenders;
use gpushare_kube::PodRef;
use growth::Growth;
use lessons::Lessons;
use preemptions::Preemptions;
use verdicts::Verdicts;
use waiting::Waiting;

pub use binds::{Followup, Reservation};
pub use contenders::Contention;
pub use growth::Moment;
pub use node_set::NodeSet;
pub use preemptions::plan::{Preemptor, Proposal, Survey, Terms};
pub use preemptions::steps::{Outcome, Reason, Step};
pub use preemptions::{NewPreemption, Now, StaleProposal};
pub use reads::Finding;
pub use waiting::{RefusedPod, WaitingPod};

/// A pod that asks for our devices and has not ended.
#[derive(Clone, Debug)]
pub struct KnownPod {
    pub namespace: String,
    pub name: String,
    /// Changes with every change of the pod.
    pub version: String,
    pub ask: PodAsk,
    pub host: Host,
    pub node: Option<NodeName>,
    pub rank: Rank,
    /// In seconds since 1970.
    pub created: i64,
    /// The scheduler does not look at it: it is being deleted, or something must happen first.
    pub set_aside: bool,
    pub preemption: PreemptionFacts,
}

impl KnownPod {
    /// Whether the scheduler looks for a node for it.
    fn wants_node(&self) -> bool {
        self.node.is_none() && !self.set_aside
    }

    /// A pod that is to be bound although the watch does not show it, or not any more.
    fn gone(pod: &PodRef, ask: &PodAsk) -> Self {
        Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            version: String::new(),
            ask: ask.clone(),
            host: Host::default(),
            node: None,
            rank: Rank::default(),
            created: 0,
            set_aside: true,
            preemption: PreemptionFacts::default(),
        }
    }

    fn waiting(&self, uid: &PodUid) -> WaitingPod {
        WaitingPod {
            pod: PodRef {
                uid: uid.clone(),
                namespace: self.namespace.clone(),
                name: self.name.clone(),
            },
            ask: self.ask.clone(),
            rank: self.rank,
            created: self.created,
            preempts: self.preemption.preempts,
        }
    }
}

/// A node as the watch shows it; cards that cannot be read are none.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    pub name: NodeName,
    pub cards: Vec<Card>,
    /// What containers without pods still hold there, by the word of the node's agent.
    pub held: Vec<HeldPod>,
    pub allocatable: Host,
}

/// What the state rings when there is something to do.
#[derive(Clone, Debug, Default)]
pub struct Bells {
    /// A waiting pod may fit.
    pub wake: Arc<Notify>,
    /// A refused pod may preempt, or a preemption may go on.
    pub preempt: Arc<Notify>,
}

#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    packing: Packing,
    /// Kept up with packing when it is asked, while others only read.
    rankings: Mutex<Rankings>,
    /// Likewise with the ledger.
    verdicts: Mutex<Verdicts>,
    pods: HashMap<PodUid, KnownPod>,
    nodes: BTreeSet<NodeName>,
    attempts: HashMap<PodUid, binds::Attempt>,
    reads: HashMap<PodUid, reads::Open>,
    last_read: u64,
    growth: Growth,
    lessons: Lessons,
    waiting: Waiting,
    contenders: Contenders,
    preemptions: Preemptions,
    preempt_bell: Arc<Notify>,
    nodes_listed: bool,
    pods_listed: bool,
}

impl Books {
    pub fn new(classes: Classes, policy: Policy, bells: Bells) -> Self {
        let class = classes.iter().next().map(|class| class.name.clone());
        Self {
            packing: Packing::new(policy, class),
            rankings: Mutex::default(),
            verdicts: Mutex::default(),
            ledger: Ledger::new(classes),
            pods: HashMap::new(),
            nodes: BTreeSet::new(),
            attempts: HashMap::new(),
            reads: HashMap::new(),
            last_read: 0,
            growth: Growth::new(bells.wake),
            lessons: Lessons::default(),
            waiting: Waiting::default(),
            contenders: Contenders::default(),
            preemptions: Preemptions::default(),
            preempt_bell: bells.preempt,
            nodes_listed: false,
            pods_listed: false,
        }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    /// The candidate that packing prefers; nothing when it has no opinion.
    pub fn best(
        &self,
        ask: Option<&PodAsk>,
        host: Host,
        is_candidate: impl FnMut(&str) -> bool,
    ) -> Option<&str> {
        let mut rankings = self.rankings.lock();
        self.packing
            .best_ranked(&mut rankings, ask, host, is_candidate)
    }

    pub fn pod(&self, uid: &str) -> Option<&KnownPod> {
        self.pods.get(uid)
    }

    /// For people, who know pods by name; pods are kept by uid.
    pub fn pod_named(&self, namespace: &str, name: &str) -> Option<(&PodUid, &KnownPod)> {
        let named = |pod: &KnownPod| pod.namespace == namespace && pod.name == name;
        self.pods.iter().find(|(_, pod)| named(pod))
    }

    /// The pods that the scheduler looks for a node for.
    pub fn pods_without_node(&self) -> Vec<PodRef> {
        let waiting = self.pods.iter().filter(|(_, pod)| pod.wants_node());
        waiting.filter_map(|(uid, _)| self.reference(uid)).collect()
    }

    /// Pods that ask for devices and have not ended.
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// The node on which room was claimed for the pod, if it is among these and has that room now.
    pub fn claimed_node(
        &self,
        pod: &PodFacts,
        is_candidate: impl FnOnce(&str) -> bool,
        steps: &Steps,
    ) -> Option<&str> {
        let claim = self.ledger.claimed(pod.uid.as_str())?;
        let node = claim.node.as_str();
        let ask = pod.ask.as_ref().ok()?.as_ref()?;
        let search = self.ledger.search(ask, steps);
        let fits = self.ledger.fit(node, &pod.uid, &search).is_ok();
        (fits && is_candidate(node)).then_some(node)
    }

    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    pub fn has_node(&self, name: &str) -> bool {
        self.nodes.contains(name)
    }

    /// What is missing before answers can be given.
    pub fn ready(&self) -> Result<(), &'static str> {
        match (self.nodes_listed, self.pods_listed) {
            (true, true) => Ok(()),
            (false, _) => Err("nodes are not listed yet"),
            (_, false) => Err("pods are not listed yet"),
        }
    }

    pub fn apply_node(&mut self, node: NodeFacts) {
        self.growth.add(&node.name);
        let changed = !self.has_just(&node);
        self.ledger.set_node(&node.name, node.cards);
        let ended = self.ledger.set_held(&node.name, node.held);
        if changed {
            self.growth.cards(node.name.as_str());
        }
        if ended {
            self.growth.room(node.name.as_str());
        }
        self.packing.set_allocatable(&node.name, node.allocatable);
        self.packing.redraw(&self.ledger, &node.name);
        self.ring_for_preemptions();
        self.nodes.insert(node.name);
    }

    /// Whether these are the node's cards already, in whatever order.
    fn has_just(&self, node: &NodeFacts) -> bool {
        let view = self.ledger.node(node.name.as_str());
        let rooms = view.map_or(&[][..], |view| view.rooms());
        let known = |card: &Card| rooms.iter().any(|room| room.card == *card);
        rooms.len() == node.cards.len() && node.cards.iter().all(known)
    }

    pub fn delete_node(&mut self, name: &str) {
        self.ledger.remove_node(name);
        self.packing.remove_node(name);
        self.nodes.remove(name);
        if let Some(number) = self.growth.remove(name) {
            self.waiting.forget_node(number);
        }
        self.ring_for_preemptions();
    }

    pub fn replace_nodes(&mut self, mut listed: Vec<NodeFacts>) {
        // In the order of names packing takes over each node at its end.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let names: BTreeSet<NodeName> = listed.iter().map(|node| node.name.clone()).collect();
        let gone: Vec<NodeName> = self.nodes.difference(&names).cloned().collect();
        for gone in gone {
            self.delete_node(gone.as_str());
        }
        for node in listed {
            self.apply_node(node);
        }
        self.nodes_listed = true;
    }
}

#[cfg(test)]
mod explore;
#[cfg(test)]
mod tests;
