//! The books: the one owner of all parts. Each thing that can happen is one method, which changes the parts concerned
//! in the right order.
//!
//! What the API server shows (by the watch and by reads) always wins over what binds in progress assume, with one
//! exception: a record that was accepted once is not exchanged for another one on the same node, because the
//! containers already hold the first card.

mod preempting;
mod waking;
mod watching;

use std::collections::BTreeSet;
use std::sync::Arc;

use gpushare_core::gpu::AliyunUnit;
use gpushare_core::{Classes, Ledger, NodeName, PodAsk, PodUid, Steps, Why};
use gpushare_kube::PodRef;
use gpushare_kube::bind::Outcome;
use gpushare_kube::convert::PodFacts;
use gpushare_packing::{Packing, Policy};
use tokio::sync::Notify;

use crate::binds::{Attempts, Followup, Reservation};
use crate::contenders::Contenders;
use crate::lessons::Lessons;
use crate::nodes::growth::Moment;
use crate::nodes::{NodeFacts, Nodes};
use crate::pods::{KnownPod, Pods};
use crate::preemptions::{Preemptions, Situation};
use crate::reads::Reads;
use crate::reasons::Reasons;
use crate::verdicts::{Verdict, Verdicts};
use crate::waiting::Waiting;

/// What the books ring when there is something to do.
#[derive(Clone, Debug, Default)]
pub struct Bells {
    /// Rung when a waiting pod may fit.
    pub wake: Arc<Notify>,
    /// Rung when a refused pod may preempt, or a preemption may continue.
    pub preempt: Arc<Notify>,
}

#[derive(Debug)]
pub struct Books {
    pods: Pods,
    nodes: Nodes,
    attempts: Attempts,
    reads: Reads,
    lessons: Lessons,
    verdicts: Verdicts,
    waiting: Waiting,
    contenders: Contenders,
    preemptions: Preemptions,
    nodes_listed: bool,
    pods_listed: bool,
}

impl Books {
    pub fn new(classes: Classes, policy: Policy, bells: Bells) -> Self {
        Self {
            pods: Pods::default(),
            nodes: Nodes::new(classes, policy, bells.wake),
            attempts: Attempts::default(),
            reads: Reads::default(),
            lessons: Lessons::default(),
            verdicts: Verdicts::default(),
            waiting: Waiting::default(),
            contenders: Contenders::new(bells.preempt.clone()),
            preemptions: Preemptions::new(bells.preempt),
            nodes_listed: false,
            pods_listed: false,
        }
    }

    pub fn ledger(&self) -> &Ledger {
        self.nodes.ledger()
    }

    pub fn packing(&self) -> &Packing {
        self.nodes.packing()
    }

    pub fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    pub fn pods(&self) -> &Pods {
        &self.pods
    }

    pub fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    pub fn preemptions(&self) -> &Preemptions {
        &self.preemptions
    }

    pub fn situation(&self) -> Situation<'_> {
        Situation::new(&self.pods, &self.nodes, &self.preemptions)
    }

    /// The logical time of what is known now, for [`RefusedPod`](crate::RefusedPod).
    pub fn moment(&self) -> Moment {
        self.nodes.growth().now()
    }

    /// Whether the books can answer. The error says what is missing.
    pub fn ready(&self) -> Result<(), &'static str> {
        match (self.nodes_listed, self.pods_listed) {
            (true, true) => Ok(()),
            (false, _) => Err("nodes are not listed yet"),
            (_, false) => Err("pods are not listed yet"),
        }
    }

    /// The node on which room was claimed for the pod, if it is a candidate and has that room now.
    pub fn claimed_node(
        &self,
        pod: &PodFacts,
        is_candidate: impl FnOnce(&str) -> bool,
        steps: &Steps,
    ) -> Option<&str> {
        let claim = self.ledger().claimed(pod.uid.as_str())?;
        let node = claim.node.as_str();
        let ask = pod.ask.as_ref().ok()?.as_ref()?;
        let search = self.ledger().search(ask, steps);
        let fits = self.ledger().fit(node, &pod.uid, &search).is_ok();
        (fits && is_candidate(node)).then_some(node)
    }

    /// For each of these nodes, why it cannot take a pod with this request. Valid only for pods for which the ledger
    /// holds nothing.
    pub fn verdicts<'n>(
        &self,
        ask: &PodAsk,
        names: impl Iterator<Item = &'n str>,
        judge: impl Fn(&str) -> Option<Why>,
    ) -> (Vec<Verdict>, Reasons) {
        self.verdicts.on(&self.nodes, ask, names, judge)
    }

    pub fn apply_node(&mut self, node: NodeFacts) {
        self.nodes.apply(node);
        self.preemptions.ring();
    }

    pub fn delete_node(&mut self, name: &str) {
        if let Some(number) = self.nodes.remove(name) {
            self.waiting.forget_node(number);
        }
        self.preemptions.ring();
    }

    pub fn replace_nodes(&mut self, mut listed: Vec<NodeFacts>) {
        // Packing keeps nodes sorted by name. In this order it adds each new node at the end.
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let names: BTreeSet<&NodeName> = listed.iter().map(|node| &node.name).collect();
        let gone = self.nodes.iter().filter(|name| !names.contains(name));
        let gone: Vec<NodeName> = gone.cloned().collect();
        for gone in gone {
            self.delete_node(gone.as_str());
        }
        for node in listed {
            self.apply_node(node);
        }
        self.nodes_listed = true;
    }

    /// Whether the policy could learn from this pod.
    pub fn is_news(&self, pod: &PodFacts) -> bool {
        let asks = matches!(pod.ask, Ok(Some(_)));
        asks && self.ready().is_ok() && self.lessons.lacks(&self.pods, &pod.uid)
    }

    /// Learns from a pod as the scheduler shows it. Only its request is used; the pod is not added to the index.
    pub fn meet(&mut self, pod: &PodFacts) {
        if let Ok(Some(ask)) = &pod.ask
            && self.is_news(pod)
        {
            self.nodes.observe(ask, pod.host);
            self.lessons.remember(&pod.uid);
        }
    }

    /// Chooses the pod's cards on the node and books them.
    ///
    /// The caller must already know the version of the pod that the bind will name: a fence that begins after this
    /// call ends the doubt about the bind.
    pub fn reserve(
        &mut self,
        pod: &PodRef,
        ask: &PodAsk,
        node: &NodeName,
        unit: AliyunUnit,
        now_nanos: i128,
    ) -> Result<Reservation, Why> {
        let uid = &pod.uid;
        let known = self.pods.get(uid.as_str());
        let (missing, host) = (
            known.is_none(),
            known.map(|known| known.host).unwrap_or_default(),
        );
        let placement = self.nodes.reserve(uid, ask, host, node)?;
        self.stop_waiting_elsewhere(uid, node);
        self.attempts.begin(uid, self.reads.last(), missing);
        // A booked pod must be in the index, because a read needs its name.
        if missing {
            self.pods.keep(KnownPod::unseen(pod, ask));
        }
        let ledger = self.nodes.ledger();
        let told = (unit, now_nanos);
        Ok(Reservation::new(uid, ask, node, placement, ledger, told))
    }

    /// Applies a bind's outcome to its booking. Returns what remains to be done.
    pub fn conclude(&mut self, pod: &PodUid, outcome: &Outcome) -> Followup {
        self.attempts.conclude(&mut self.nodes, pod, outcome)
    }
}

#[cfg(test)]
mod explore;
#[cfg(test)]
pub(crate) mod tests;
