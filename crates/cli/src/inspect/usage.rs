//! What is in use on nodes and their cards, and by which pods, in one unit of memory.

use gpushare_core::gpu::AliyunUnit;
use serde::Serialize;

/// A node as read from the cluster, in its own unit.
#[derive(Debug)]
pub(super) struct NodeUse {
    pub(super) name: String,
    pub(super) address: String,
    /// Unknown if a node has memory but no cards.
    pub(super) unit: Option<AliyunUnit>,
    /// Total of each card, by position.
    pub(super) cards: Vec<u64>,
    /// Total of the node; more than the sum of its cards if it does not divide evenly among them.
    pub(super) total: u64,
    pub(super) pods: Vec<PodUse>,
}

#[derive(Debug)]
pub(super) struct PodUse {
    pub(super) namespace: String,
    pub(super) name: String,
    /// By position of the card; `None` means an unknown card of the node.
    pub(super) held: Vec<(Option<usize>, u64)>,
}

/// The whole answer in its printed form.
#[derive(Debug, Serialize)]
pub(super) struct Usage {
    /// `GiB`, `MiB`, or empty if there are no cards.
    pub(super) unit: &'static str,
    pub(super) allocated: u64,
    pub(super) total: u64,
    pub(super) nodes: Vec<Node>,
    /// For how many cards the summary has columns.
    #[serde(skip)]
    pub(super) columns: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) allocated: u64,
    pub(super) total: u64,
    pub(super) cards: Vec<Card>,
    /// Memory of pods on the node whose card is unknown.
    pub(super) pending: Option<u64>,
    pub(super) pods: Vec<Pod>,
}

#[derive(Debug, Serialize)]
pub(super) struct Card {
    pub(super) allocated: u64,
    pub(super) total: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Pod {
    pub(super) namespace: String,
    pub(super) name: String,
    /// What the pod holds of each card of the node.
    pub(super) cards: Vec<u64>,
    pub(super) pending: u64,
}

impl Usage {
    /// Sorted by name. In GiB if all nodes are in GiB, otherwise everything in MiB.
    pub(super) fn new(mut nodes: Vec<NodeUse>, columns: usize) -> Self {
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let mut units = nodes.iter().filter_map(|node| node.unit);
        let unit = match units.next() {
            Some(first) if units.all(|unit| unit == first) => Some(first),
            Some(_) => Some(AliyunUnit::MiB),
            None => None,
        };
        let factor = |node: &NodeUse| match (node.unit, unit) {
            (Some(of_node), Some(of_all)) => of_node.mib() / of_all.mib(),
            _ => 1,
        };
        let nodes: Vec<Node> = nodes
            .iter()
            .map(|node| Node::new(node, factor(node)))
            .collect();
        Self {
            unit: unit.map_or("", AliyunUnit::name),
            allocated: sum(nodes.iter().map(|node| node.allocated)),
            total: sum(nodes.iter().map(|node| node.total)),
            nodes,
            columns,
        }
    }
}

impl Node {
    fn new(node: &NodeUse, factor: u64) -> Self {
        let mut pods: Vec<Pod> = node
            .pods
            .iter()
            .map(|pod| Pod::new(pod, node, factor))
            .collect();
        pods.sort_by(|one, other| one.place().cmp(&other.place()));
        let of_card = |(position, total): (usize, &u64)| Card {
            allocated: sum(pods
                .iter()
                .filter_map(|pod| pod.cards.get(position).copied())),
            total: total.saturating_mul(factor),
        };
        let cards: Vec<Card> = node.cards.iter().enumerate().map(of_card).collect();
        let nowhere = |(position, _): &(Option<usize>, u64)| on_card(*position, node).is_none();
        let is_pending = node.pods.iter().flat_map(|pod| &pod.held).any(nowhere);
        let pending = is_pending.then(|| sum(pods.iter().map(|pod| pod.pending)));
        let on_cards = sum(cards.iter().map(|card| card.allocated));
        Self {
            name: node.name.clone(),
            address: node.address.clone(),
            allocated: on_cards.saturating_add(pending.unwrap_or(0)),
            total: node.total.saturating_mul(factor),
            cards,
            pending,
            pods,
        }
    }
}

impl Pod {
    fn new(pod: &PodUse, node: &NodeUse, factor: u64) -> Self {
        let mut printed = Self {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            cards: vec![0; node.cards.len()],
            pending: 0,
        };
        for (position, amount) in &pod.held {
            let card =
                on_card(*position, node).and_then(|position| printed.cards.get_mut(position));
            let sum = card.unwrap_or(&mut printed.pending);
            *sum = sum.saturating_add(amount.saturating_mul(factor));
        }
        printed
    }

    /// The sort key: pods are ordered by their first card, those without a card last.
    fn place(&self) -> (usize, &str, &str) {
        let first = self.cards.iter().position(|amount| *amount > 0);
        (first.unwrap_or(usize::MAX), &self.namespace, &self.name)
    }
}

/// `None` also for a position at which the node has no card.
fn on_card(position: Option<usize>, node: &NodeUse) -> Option<usize> {
    position.filter(|position| *position < node.cards.len())
}

fn sum(amounts: impl Iterator<Item = u64>) -> u64 {
    amounts.fold(0, u64::saturating_add)
}
