//! Packing: which of the nodes that can take a pod should take it, and on which cards.
//!
//! A model of the cluster for the [policies](crate::policy), updated node by node as the ledger and the
//! pods of a node change. It only advises: the ledger decides whether a pod fits.

use std::collections::BTreeMap;
use std::sync::Arc;

use gpushare_core::amounts::Amounts;
use gpushare_core::ledger::Ledger;
use gpushare_core::request::{ContainerAsk, Part, PodAsk, Role, Want, peak};
use gpushare_core::room;
use gpushare_core::{CardId, Host, NodeName, Placement, PodUid, Search};

use crate::{CardRoom, Fleet, Policy, PoolSet, Rankings, Shape, Space, policy};

#[derive(Debug)]
pub struct Packing {
    /// The class whose cards packing compares; cards of other classes only have to fit.
    class: Option<Arc<str>>,
    fleet: Fleet,
    hosts: BTreeMap<NodeName, Node>,
    /// What every pod takes of its node, whether or not it uses gpushare.
    pods: BTreeMap<PodUid, (NodeName, Host)>,
}

#[derive(Debug, Default)]
struct Node {
    allocatable: Host,
    used: Host,
}

impl Packing {
    pub fn new(policy: Policy, class: Option<Arc<str>>) -> Self {
        Self {
            class,
            fleet: Fleet::new(policy),
            hosts: BTreeMap::new(),
            pods: BTreeMap::new(),
        }
    }

    pub fn set_allocatable(&mut self, node: &NodeName, allocatable: Host) {
        self.hosts.entry(node.clone()).or_default().allocatable = allocatable;
    }

    pub fn remove_node(&mut self, node: &str) {
        self.hosts.remove(node);
        self.fleet.remove(node);
    }

    /// Sets what a pod takes of which node; `None` if it takes nothing any more. Returns the nodes to redraw.
    pub fn set_pod(&mut self, pod: &PodUid, takes: Option<(&NodeName, Host)>) -> Vec<NodeName> {
        let before = match &takes {
            Some((node, host)) => self.pods.insert(pod.clone(), ((*node).clone(), *host)),
            None => self.pods.remove(pod),
        };
        if takes.is_some_and(|(node, host)| {
            before
                .as_ref()
                .is_some_and(|before| before.0 == *node && before.1 == host)
        }) {
            return Vec::new();
        }
        let mut changed = Vec::new();
        if let Some((node, host)) = before {
            let known = self.hosts.entry(node.clone()).or_default();
            known.used = known.used.minus(host);
            changed.push(node);
        }
        if let Some((node, host)) = takes {
            let known = self.hosts.entry(node.clone()).or_default();
            known.used = known.used.plus(host);
            changed.push(node.clone());
        }
        changed
    }

    /// Forgets what all pods take, before a complete list is applied.
    pub fn clear_pods(&mut self) {
        self.pods.clear();
        for node in self.hosts.values_mut() {
            node.used = Host::default();
        }
    }

    /// Updates a node to the present state of the ledger.
    pub fn redraw(&mut self, ledger: &Ledger, name: &NodeName) {
        let cards = self.cards(ledger, name.as_str());
        let host = self.hosts.get(name);
        let free = host.map_or_else(Host::default, |host| host.allocatable.minus(host.used));
        // A node with more cards than packing can represent still takes pods, but is never preferred.
        match cards.and_then(|cards| Space::new(free.cpu, free.memory, cards).ok()) {
            Some(space) => self.fleet.set(name, space),
            None => self.fleet.remove(name.as_str()),
        }
    }

    fn cards(&mut self, ledger: &Ledger, name: &str) -> Option<Vec<CardRoom>> {
        let class = self.class.as_deref()?;
        let mut cards = Vec::new();
        for room in ledger.node(name)?.rooms() {
            let card = &room.card;
            if *card.class != *class {
                continue;
            }
            let pool = self.fleet.pools_mut().intern(&card.model, card.capacity);
            let free = if card.healthy {
                room.free()
            } else {
                Amounts::ZERO
            };
            cards.push(CardRoom::new(pool.ok()?, card.capacity, free));
        }
        (!cards.is_empty()).then_some(cards)
    }

    /// Learns from a request that was not seen before.
    pub fn observe(&mut self, ask: &PodAsk, host: Host) {
        if let Some(shape) = self.shape(Some(ask), host) {
            self.fleet.observe(&shape);
        }
    }

    /// Learns from many requests that were not seen before.
    pub fn observe_all<'a>(&mut self, requests: impl Iterator<Item = (&'a PodAsk, Host)>) {
        let shapes = requests.filter_map(|(ask, host)| self.shape(Some(ask), host));
        let shapes: Vec<Shape> = shapes.collect();
        self.fleet.observe_all(shapes);
    }

    /// Learns that a pod that had cards has ended.
    pub fn observe_end(&mut self, ask: &PodAsk, host: Host) {
        if let Some(shape) = self.shape(Some(ask), host) {
            self.fleet.observe_end(&shape);
        }
    }

    /// The best of these nodes; `None` if packing has no preference.
    pub fn best<'n>(
        &self,
        ask: Option<&PodAsk>,
        host: Host,
        nodes: impl Iterator<Item = &'n str>,
    ) -> Option<&str> {
        let shape = self.shape(ask, host)?;
        let places = nodes.filter_map(|name| self.fleet.find(name));
        let pick = self.fleet.choose_by(&self.policy(ask), &shape, places)?;
        self.fleet.name(pick.node).map(NodeName::as_str)
    }

    /// Like [`Self::best`], but with rankings kept between requests: for many nodes and many equal pods.
    pub fn best_ranked(
        &self,
        rankings: &mut Rankings,
        ask: Option<&PodAsk>,
        host: Host,
        is_candidate: impl FnMut(&str) -> bool,
    ) -> Option<&str> {
        let shape = self.shape(ask, host)?;
        let pick = rankings.best(&self.fleet, &self.policy(ask), &shape, is_candidate)?;
        self.fleet.name(pick.node).map(NodeName::as_str)
    }

    /// Whether the node has this much CPU and memory left.
    pub fn has_host_room(&self, node: &str, host: Host) -> bool {
        self.hosts.get(node).is_some_and(|known| {
            let free = known.allocatable.minus(known.used);
            host.cpu <= free.cpu && host.memory <= free.memory
        })
    }

    /// Whether the node has this much CPU and memory once these pods have ended.
    pub fn has_host_room_without<'p>(
        &self,
        node: &NodeName,
        leaving: impl Iterator<Item = &'p PodUid>,
        needed: Host,
    ) -> bool {
        let Some(known) = self.hosts.get(node) else {
            return false;
        };
        let mut free = known.allocatable.minus(known.used);
        for pod in leaving {
            if let Some((_, host)) = self.pods.get(pod).filter(|(on, _)| on == node) {
                free = free.plus(*host);
            }
        }
        needed.cpu <= free.cpu && needed.memory <= free.memory
    }

    /// Whether the node has cards that packing knows.
    pub fn has_cards(&self, node: &str) -> bool {
        self.fleet.find(node).is_some()
    }

    /// The placement on this node that the policy prefers, if it fits for all containers.
    pub fn place(
        &self,
        ask: &PodAsk,
        host: Host,
        node: &NodeName,
        search: &Search<'_>,
        rooms: &[room::CardRoom],
    ) -> Option<Placement> {
        let class = self.class.as_deref()?;
        let at = self.fleet.find(node.as_str())?;
        let policy = self.policy(Some(ask));
        // The scheduler has already decided that CPU and memory suffice, so try again without them.
        let pick = [host, Host::default()].into_iter().find_map(|host| {
            let shape = self.shape(Some(ask), host)?;
            self.fleet.choose_by(&policy, &shape, [at])
        })?;
        let of_class = rooms.iter().filter(|room| *room.card.class == *class);
        let chosen: Vec<&CardId> = of_class
            .enumerate()
            .filter(|(index, _)| pick.cards.contains(*index))
            .map(|(_, room)| &room.card.id)
            .collect();
        search.place_on(rooms, class, &chosen)
    }

    fn policy(&self, ask: Option<&PodAsk>) -> Policy {
        let asks = ask.map(|ask| &*ask.containers).unwrap_or_default();
        let named = asks.iter().find_map(|ask| ask.choice.policy.as_deref());
        let known = |name: &str| policy::FOR_PODS.into_iter().find(|p| p.name == name);
        named.and_then(known).unwrap_or(*self.fleet.policy())
    }

    /// What packing sees of a request. Several containers count as one that holds their peak.
    fn shape(&self, ask: Option<&PodAsk>, host: Host) -> Option<Shape> {
        let Host { cpu, memory } = host;
        let Some(ask) = ask else {
            return Some(Shape::without_cards(cpu, memory));
        };
        let asks: Vec<&ContainerAsk> = ask.of_class(self.class.as_deref()?).collect();
        let choice = &asks.first()?.choice;
        let pools = if choice.accepts_all() {
            PoolSet::ANY
        } else {
            let pools = self.fleet.pools();
            pools.matching(|pool| choice.accepts_model(&pool.model))
        };
        Some(Shape {
            cpu,
            memory,
            cards: asks.iter().map(|ask| ask.cards).max()?,
            want: together(&asks),
            pools,
        })
    }
}

fn together(asks: &[&ContainerAsk]) -> Want {
    let parts: Option<Vec<(Role, Part)>> = asks
        .iter()
        .map(|ask| match ask.want {
            Want::Whole => None,
            Want::Share(part) => Some((ask.role, part)),
        })
        .collect();
    parts.map_or(Want::Whole, |parts| {
        let of = |amounts: fn(&Part) -> Amounts| {
            peak(parts.iter().map(|(role, part)| (*role, amounts(part))))
        };
        Want::Share(Part {
            amounts: of(|part| part.amounts),
            percent: of(|part| part.percent),
        })
    })
}
