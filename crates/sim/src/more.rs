//! How many more pods of one shape the present cluster takes, and where: runs the code that serves the
//! cluster on a copy of its books, one pod at a time.

use std::collections::BTreeMap;

use gpushare_core::ledger::BoundPod;
use gpushare_core::room::CardRoom;
use gpushare_core::{
    Card, Classes, HeldPod, Host, Ledger, NodeName, PodAsk, PodUid, Search, Steps,
};
use gpushare_packing::Packing;
use gpushare_packing::{Policy, Rankings};
use serde::Serialize;

/// The present state of a cluster.
#[derive(Debug)]
pub struct Now {
    ledger: Ledger,
    packing: Packing,
    /// Kept, because one pod changes only one node and the ranks of the others stay valid.
    rankings: Rankings,
    nodes: Vec<NodeName>,
    steps: Steps,
}

/// The steps for all pods together: a few seconds at most.
const STEPS: u32 = 50_000_000;

/// The result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct More {
    pub fit: u64,
    /// Pods by node, most first.
    pub nodes: Vec<(String, u64)>,
    /// Why no more pods fit: reasons with the number of nodes, the most frequent first. Empty if the
    /// search ended because it had found enough.
    pub then: Vec<(u64, String)>,
}

impl Now {
    pub fn new(classes: Classes, policy: Policy) -> Self {
        let class = classes.iter().next().map(|class| class.name.clone());
        Self {
            ledger: Ledger::new(classes),
            packing: Packing::new(policy, class),
            rankings: Rankings::default(),
            nodes: Vec::new(),
            steps: Steps::new(STEPS),
        }
    }

    pub fn add_node(&mut self, name: NodeName, cards: Vec<Card>, allocatable: Host) {
        self.ledger.set_node(&name, cards);
        self.packing.set_allocatable(&name, allocatable);
        self.nodes.push(name);
    }

    /// Adds what containers whose pods are gone hold on the node.
    pub fn add_held(&mut self, node: &NodeName, held: Vec<HeldPod>) {
        self.ledger.set_held(node, held);
    }

    /// Adds a pod that runs on a node, with its booking if it holds cards.
    pub fn add_pod(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        host: Host,
        booking: Option<BoundPod>,
    ) {
        self.packing.set_pod(pod, Some((node, host)));
        if let Some(bound) = booking {
            self.packing.observe(&bound.ask, host);
            self.ledger.confirm(bound);
        }
    }

    /// Places up to `most` pods.
    pub fn more(mut self, ask: &PodAsk, host: Host, most: u64) -> More {
        self.nodes.sort();
        for node in &self.nodes {
            self.packing.redraw(&self.ledger, node);
        }
        let mut placed: BTreeMap<NodeName, u64> = BTreeMap::new();
        let mut fit = 0;
        while fit < most {
            let pod = PodUid::new(format!("one-more-{fit}"));
            let Some(node) = self.place(&pod, ask, host) else {
                break;
            };
            *placed.entry(node).or_default() += 1;
            fit += 1;
        }
        let mut nodes: Vec<(String, u64)> = placed
            .into_iter()
            .map(|(node, pods)| (node.to_string(), pods))
            .collect();
        nodes.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
        let then = if fit < most {
            self.reasons(ask, host)
        } else {
            Vec::new()
        };
        More { fit, nodes, then }
    }

    fn place(&mut self, pod: &PodUid, ask: &PodAsk, host: Host) -> Option<NodeName> {
        let best = self
            .packing
            .best_ranked(&mut self.rankings, Some(ask), host, |_every| true);
        let search = self.ledger.search(ask, &self.steps);
        let fits = |name: &&str| {
            self.packing.has_host_room(name, host) && self.ledger.fit(name, pod, &search).is_ok()
        };
        // Packing treats a pod of several containers as one, so the ledger has to confirm that it fits.
        let chosen = best.filter(|best| fits(best)).or_else(|| {
            let mut names = self.nodes.iter().map(NodeName::as_str);
            names.find(fits)
        })?;
        let node = NodeName::new(chosen);
        let packing = &self.packing;
        let choose = |search: &Search<'_>, rooms: &[CardRoom]| {
            packing.place(ask, host, &node, search, rooms)
        };
        let steps = &self.steps;
        let reserved = self.ledger.reserve_with(pod, &node, ask, steps, choose);
        reserved.ok()?;
        self.packing.set_pod(pod, Some((&node, host)));
        self.packing.redraw(&self.ledger, &node);
        Some(node)
    }

    fn reasons(&self, ask: &PodAsk, host: Host) -> Vec<(u64, String)> {
        let search = self.ledger.search(ask, &self.steps);
        let pod = PodUid::new("one-more");
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for node in &self.nodes {
            let why = match self.ledger.fit(node.as_str(), &pod, &search) {
                Err(why) => why.to_string(),
                Ok(()) if !self.packing.has_host_room(node.as_str(), host) => {
                    "too little CPU or memory beside the cards".to_owned()
                }
                Ok(()) => continue,
            };
            *counted.entry(why).or_default() += 1;
        }
        let mut reasons: Vec<(u64, String)> =
            counted.into_iter().map(|(why, n)| (n, why)).collect();
        reasons.sort_by(|a, b| (b.0, &a.1).cmp(&(a.0, &b.1)));
        reasons
    }
}

impl std::fmt::Display for More {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let s = if self.fit == 1 { "" } else { "s" };
        writeln!(f, "{} more pod{s} would fit now", self.fit)?;
        for (node, pods) in &self.nodes {
            writeln!(f, "  {pods:>6}  {node}")?;
        }
        for (at, (nodes, why)) in self.then.iter().enumerate() {
            if at == 0 {
                writeln!(f, "then no node takes another:")?;
            }
            let s = if *nodes == 1 { "" } else { "s" };
            writeln!(f, "  {nodes:>6}  node{s}: {why}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use gpushare_core::gpu::{self, AliyunUnit};
    use gpushare_core::request::Role;
    use gpushare_core::validate::{ContainerView, PodView, validate};
    use gpushare_core::{Amounts, CardId};

    use super::*;

    fn ask(mib: &str) -> PodAsk {
        let container = ContainerView {
            name: "c",
            role: Role::App,
            index: 0,
            limits: vec![("gpushare.io/gpu", "1"), ("gpushare.io/gpu-mem", mib)],
        };
        let pod = PodView {
            containers: vec![container],
            annotations: Vec::new(),
        };
        let dialects = gpu::dialects(AliyunUnit::GiB);
        validate(&dialects, &pod).unwrap().unwrap()
    }

    fn cluster(nodes: &[(&str, &[u64], i64)]) -> Now {
        let mut now = Now::new(gpu::classes(), Policy::default());
        for (name, cards, cpu) in nodes {
            let cards = (0..).zip(*cards).map(|(index, memory)| Card {
                id: CardId::new(format!("GPU-{name}-{index}")),
                class: gpu::CLASS.into(),
                index,
                model: "T4".into(),
                capacity: Amounts::of(gpu::MEMORY, *memory),
                healthy: true,
            });
            let host = Host {
                cpu: *cpu,
                memory: 1_000,
            };
            now.add_node(NodeName::new(name), cards.collect(), host);
        }
        now
    }

    fn needs(cpu: i64) -> Host {
        Host { cpu, memory: 1 }
    }

    #[test]
    fn cards_are_counted_one_by_one_and_not_as_a_sum() {
        let now = cluster(&[("a", &[8, 8], 99), ("b", &[4], 99), ("c", &[], 99)]);
        let more = now.more(&ask("3"), needs(1), 100);
        assert_eq!(more.fit, 5);
        assert_eq!(more.nodes, [("a".to_owned(), 4), ("b".to_owned(), 1)]);
        let text = more.to_string();
        assert!(text.contains("5 more pods would fit now"), "{text}");
        assert!(
            text.contains("no card has 3 MiB of memory free, the most is 2"),
            "{text}"
        );
        assert!(text.contains("no gpu cards published"), "{text}");
    }

    #[test]
    fn cpu_beside_the_cards_can_be_what_runs_out() {
        let more = cluster(&[("a", &[8, 8], 3)]).more(&ask("1"), needs(1), 100);
        assert_eq!(more.fit, 3);
        assert_eq!(more.then[0].1, "too little CPU or memory beside the cards");
    }

    #[test]
    fn what_runs_already_counts() {
        let mut now = cluster(&[("a", &[8], 99)]);
        let (pod, node) = (PodUid::new("u"), NodeName::new("a"));
        let ask = ask("6");
        let bound = BoundPod {
            pod: pod.clone(),
            node: node.clone(),
            placement: gpushare_core::Placement::on_one_card(&ask, &CardId::new("GPU-a-0")),
            ask: ask.clone(),
        };
        now.add_pod(&pod, &node, needs(1), Some(bound));
        assert_eq!(now.more(&ask, needs(1), 100).fit, 0);
    }

    #[test]
    fn the_search_ends_when_it_has_found_enough() {
        let more = cluster(&[("a", &[8], 99)]).more(&ask("1"), needs(1), 3);
        assert_eq!((more.fit, more.then.len()), (3, 0));
    }
}
