//! The cluster as the API server shows it: nodes, who is on them, and what is booked on their cards.
//!
//! It is a copy on which changes are tried before they are suggested to the user.

use std::collections::BTreeMap;

use gpushare_core::dialect::Dialects;
use gpushare_core::ledger::BoundPod;
use gpushare_core::preempt::{Guard, Occupant, Rank, Site, choose};
use gpushare_core::{Card, HeldPod, Ledger, NodeName, Placement, PodAsk, PodUid, Steps};
use gpushare_kube::convert::{self, PodFacts};
use gpushare_kube::placing::CORDON;
use gpushare_kube::slim;
use gpushare_kube::totals::{self, StatedResources, Totals};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::core::v1::Taint;

/// Steps of one search for pods to end.
const STEPS: u32 = 200_000;

#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub(super) dialects: Dialects,
    pub(super) nodes: BTreeMap<NodeName, Node>,
    pub(super) pods: BTreeMap<PodUid, Holder>,
    claims: BTreeMap<PodUid, Claim>,
    /// How much the pods of each node use of its totals.
    used: BTreeMap<NodeName, Totals>,
    ledger: Ledger,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) taints: Vec<Taint>,
    pub(super) cordoned: bool,
    pub(super) allocatable: Totals,
    /// `None` if no agent has published any; an error says why they cannot be read.
    pub(super) cards: Result<Option<Vec<Card>>, String>,
    /// What containers without pods still hold.
    held: Vec<HeldPod>,
}

/// A pod on a node.
#[derive(Clone, Debug)]
pub(super) struct Holder {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: NodeName,
    pub(super) needs: Totals,
    /// The pod asks for cards but bypassed kube-scheduler, so none was chosen. It gets no card, yet uses up totals.
    pub(super) past_scheduler: bool,
    rank: Rank,
    started: i64,
    bound: Option<BoundPod>,
}

/// Room kept for a pod while its victims end.
#[derive(Clone, Debug)]
struct Claim {
    who: String,
    node: NodeName,
    ask: PodAsk,
    placement: Placement,
}

impl Node {
    /// Reads everything but the node's cards and what is held on them.
    pub(super) fn read(node: &core::Node) -> Self {
        let spec = node.spec.as_ref();
        Self {
            name: node.metadata.name.clone().unwrap_or_default(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            taints: spec
                .and_then(|spec| spec.taints.clone())
                .unwrap_or_default(),
            cordoned: spec.and_then(|spec| spec.unschedulable).unwrap_or(false),
            allocatable: totals::allocatable(node),
            cards: Ok(None),
            held: Vec::new(),
        }
    }

    /// The node controller removes the taint that it added for the cordon.
    pub(super) fn uncordon(&mut self) {
        self.cordoned = false;
        self.taints.retain(|taint| taint.key != CORDON);
    }
}

impl Cluster {
    pub(super) fn new(dialects: Dialects) -> Self {
        Self {
            ledger: Ledger::new(dialects.classes.clone()),
            dialects,
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            used: BTreeMap::new(),
        }
    }

    pub(super) fn add_node(&mut self, node: &core::Node) {
        let name = NodeName::new(node.metadata.name.as_deref().unwrap_or_default());
        let read = slim::Node {
            metadata: node.metadata.clone(),
            ..slim::Node::default()
        };
        let cards = convert::cards(&read, &self.dialects.classes);
        let mut node = Node {
            cards: cards.map_err(|error| error.to_string()),
            ..Node::read(node)
        };
        match convert::held(&read, &self.dialects.classes) {
            Ok(held) => node.held = held,
            Err(error) => node.cards = Err(error.to_string()),
        }
        self.set_node(&name, node);
    }

    pub(super) fn set_node(&mut self, name: &NodeName, node: Node) {
        let cards = node.cards.clone().ok().flatten().unwrap_or_default();
        self.ledger.set_node(name, cards);
        self.ledger.set_held(name, node.held.clone());
        self.nodes.insert(name.clone(), node);
    }

    pub(super) fn add_pod(&mut self, pod: &slim::Pod) {
        let facts = PodFacts::new(pod, &self.dialects);
        if facts.ended {
            return;
        }
        let classes = &self.dialects.classes;
        if let Some(node) = facts.node.clone() {
            let holder = Holder {
                past_scheduler: facts.is_past_scheduler(),
                bound: facts.bound(classes).and_then(Result::ok),
                needs: StatedResources::from(&pod.spec).requests(),
                namespace: facts.namespace,
                name: facts.name,
                node,
                rank: facts.rank,
                started: facts.preemption.started,
            };
            self.hold(facts.uid, holder);
        } else if let (Some(Ok((claim, placement))), Ok(Some(ask))) =
            (facts.claim(classes), &facts.ask)
        {
            let claim = Claim {
                who: format!("{}/{}", facts.namespace, facts.name),
                node: claim.node().clone(),
                ask: ask.clone(),
                placement,
            };
            self.keep(facts.uid, claim);
        }
    }

    fn hold(&mut self, uid: PodUid, holder: Holder) {
        if let Some(bound) = &holder.bound {
            self.ledger.confirm(bound.clone());
        }
        let used = self.used.entry(holder.node.clone()).or_default();
        for (resource, needs) in &holder.needs {
            let sum = used.entry(resource.clone()).or_default();
            *sum = sum.saturating_add(*needs);
        }
        self.pods.insert(uid, holder);
    }

    fn keep(&mut self, uid: PodUid, claim: Claim) {
        let Claim {
            node,
            ask,
            placement,
            ..
        } = &claim;
        self.ledger.claim(&uid, node, ask, placement.clone());
        self.claims.insert(uid, claim);
    }

    /// A cluster with only this node, to try changes on.
    pub(super) fn only(&self, name: &NodeName) -> Self {
        let mut one = Self::new(self.dialects.clone());
        if let Some(node) = self.nodes.get(name) {
            one.set_node(name, node.clone());
        }
        for (uid, holder) in self.pods.iter().filter(|(_, holder)| holder.node == *name) {
            one.hold(uid.clone(), holder.clone());
        }
        for (uid, claim) in self.claims.iter().filter(|(_, claim)| claim.node == *name) {
            one.keep(uid.clone(), claim.clone());
        }
        one
    }

    pub(super) fn end_pods(&mut self, pods: &[PodUid]) {
        for pod in pods {
            let Some(holder) = self.pods.remove(pod) else {
                continue;
            };
            self.ledger.release(pod);
            let used = self.used.entry(holder.node).or_default();
            for (resource, needs) in holder.needs {
                let sum = used.entry(resource).or_default();
                *sum = sum.saturating_sub(needs);
            }
        }
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What is left of the node's total.
    pub(super) fn free(&self, name: &NodeName, resource: &str) -> i64 {
        let whole = self
            .nodes
            .get(name)
            .and_then(|node| node.allocatable.get(resource));
        let held = self.used.get(name).and_then(|used| used.get(resource));
        let number = |total: Option<&i64>| total.copied().unwrap_or(0);
        number(whole).saturating_sub(number(held))
    }

    pub(super) fn on<'a>(
        &'a self,
        name: &'a NodeName,
    ) -> impl Iterator<Item = (&'a PodUid, &'a Holder)> {
        self.pods
            .iter()
            .filter(move |(_, holder)| holder.node == *name)
    }

    /// The names of pods for which room on the node is kept.
    pub(super) fn claims_on<'a>(&'a self, name: &'a NodeName) -> impl Iterator<Item = &'a str> {
        let claims = self
            .claims
            .values()
            .filter(move |claim| claim.node == *name);
        claims.map(|claim| claim.who.as_str())
    }

    /// The fewest pods that must end for the request to fit on the node, chosen by the extender's algorithm regardless
    /// of their priority.
    pub(super) fn in_the_way(
        &self,
        name: &NodeName,
        pod: &PodUid,
        ask: &PodAsk,
        steps: &Steps,
    ) -> Option<Vec<PodUid>> {
        let occupants = self.on(name).filter_map(|(uid, holder)| {
            Some(Occupant {
                pod: uid,
                rank: holder.rank,
                started: holder.started,
                guard: Guard::Free,
                going: false,
                charges: self.ledger.booking(uid.as_str())?.charges(),
            })
        });
        let site = Site {
            rooms: self
                .ledger
                .rooms_without_claims(name.as_str(), |other| other == pod),
            occupants: occupants.collect(),
        };
        let search = self.ledger.search(ask, steps);
        let anybody = Rank::within_budget(i32::MAX);
        let choice = steps.portion(STEPS);
        let plan = choose(&site, &search, anybody, &[], None, &choice);
        steps.settle(&choice);
        let plan = plan.plan()?;
        (!plan.victims.is_empty()).then_some(plan.victims)
    }

    /// The fewest pods that must end to free this much of a total. If pods that bypassed the scheduler hold enough,
    /// only they are chosen.
    pub(super) fn holders_of(
        &self,
        name: &NodeName,
        resource: &str,
        missing: i64,
    ) -> Option<Vec<PodUid>> {
        let mut holders: Vec<(i64, &PodUid)> = self
            .on(name)
            .filter(|(_, holder)| holder.namespace != "kube-system")
            .filter_map(|(uid, holder)| Some((*holder.needs.get(resource)?, uid)))
            .filter(|(held, _)| *held > 0)
            .collect();
        let in_vain = |uid: &PodUid| self.pods.get(uid).is_some_and(|pod| pod.past_scheduler);
        let for_nothing = holders.iter().filter(|(_, uid)| in_vain(uid));
        let freed = for_nothing.fold(0_i64, |sum, (held, _)| sum.saturating_add(*held));
        if freed >= missing {
            holders.retain(|(_, uid)| in_vain(uid));
        }
        holders.sort();
        // The smallest pod that suffices alone, or otherwise the largest ones until they suffice.
        if let Some((_, one)) = holders.iter().find(|(held, _)| *held >= missing) {
            return Some(vec![(*one).clone()]);
        }
        let mut ending = Vec::new();
        let mut freed = 0_i64;
        for (held, uid) in holders.into_iter().rev() {
            if freed >= missing {
                break;
            }
            freed = freed.saturating_add(held);
            ending.push(uid.clone());
        }
        (freed >= missing).then_some(ending)
    }
}
