//! Whom to wake: exactly those whose pods would fit now, each counted against what the ones before it
//! will take.
//!
//! Looking, deciding and noting are three steps, so that the decision itself, which can take a while
//! with many pods and nodes, is made without the lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use gpushare_core::placement::Hold;
use gpushare_core::room::CardRoom;
use gpushare_core::{CardId, Classes, NodeName, PodAsk, PodUid, Search};

use super::super::growth::{Grown, Moment};
use super::super::node_set::NodeSet;
use super::super::{PodRef, State};
use super::{PROSPECT_LASTS, Prospect, WaitingPod};

/// What the decision is made from.
#[derive(Debug)]
pub(crate) struct Outlook {
    classes: Classes,
    moment: Moment,
    /// Best first.
    pods: Vec<Hopeful>,
    /// Those that have grown, with the rooms that the prospects of others leave.
    nodes: Vec<GrownNode>,
    /// When a pod that pauses now may be woken again, or a prospect ends.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Hopeful {
    pod: Arc<WaitingPod>,
    candidates: Option<Arc<NodeSet>>,
    seen: Moment,
    /// Room that is kept for it, and counts against everybody else.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    node: NodeName,
    charges: BTreeMap<CardId, Hold>,
}

#[derive(Debug)]
struct GrownNode {
    name: NodeName,
    grown: Grown,
    rooms: Vec<CardRoom>,
}

/// Whom to wake, and who need not be looked at again for what is known now.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    moment: Moment,
    wakes: Vec<Wake>,
    tried: Vec<PodUid>,
    /// More would fit than were asked for.
    pub(crate) unfinished: bool,
    pub(crate) next: Option<Instant>,
}

#[derive(Debug)]
struct Wake {
    pod: PodUid,
    node: NodeName,
    charges: BTreeMap<CardId, Hold>,
}

impl State {
    /// What there is to decide now.
    pub(crate) fn outlook(&self, now: Instant) -> Outlook {
        let mut next: Option<Instant> = None;
        let mut pods = Vec::new();
        for entry in self.waiting.iter() {
            let pod = &entry.pod.pod.uid;
            if self.waiting.prospects.contains_key(pod) || self.nothing_new(entry.seen) {
                continue;
            }
            if let Some(again) = entry.wakes.pauses_at(now) {
                next = Some(next.map_or(again, |next| next.min(again)));
                continue;
            }
            pods.push(Hopeful {
                pod: entry.pod.clone(),
                candidates: entry.candidates.clone(),
                seen: entry.seen,
                kept: self.ledger.claimed(pod.as_str()).map(|claim| Kept {
                    node: claim.node.clone(),
                    charges: claim.placement.charges(&entry.pod.ask),
                }),
            });
        }
        let oldest = pods.iter().map(|hopeful| hopeful.seen).min();
        let nodes = oldest.map_or_else(Vec::new, |oldest| self.grown_nodes(oldest));
        let ends = self
            .waiting
            .prospects
            .values()
            .map(|prospect| prospect.until);
        Outlook {
            classes: self.ledger.classes().clone(),
            moment: self.growth.now(),
            pods,
            nodes,
            next: ends.chain(next).min(),
        }
    }

    fn nothing_new(&self, seen: Moment) -> bool {
        self.growth.since(seen).next().is_none()
    }

    fn grown_nodes(&self, since: Moment) -> Vec<GrownNode> {
        let mut nodes: Vec<GrownNode> = self
            .growth
            .since(since)
            .filter_map(|(name, grown)| {
                Some(GrownNode {
                    name: name.clone(),
                    grown: *grown,
                    rooms: self.ledger.node(name.as_str())?.rooms().to_vec(),
                })
            })
            .collect();
        for prospect in self.waiting.prospects.values() {
            let mut nodes = nodes.iter_mut();
            if let Some(node) = nodes.find(|node| node.name == prospect.node) {
                node.take(&prospect.charges);
            }
        }
        nodes
    }

    /// Ends prospects that have lasted too long.
    pub(crate) fn end_prospects(&mut self, now: Instant) {
        let over =
            |(pod, prospect): (&PodUid, &Prospect)| (prospect.until <= now).then(|| pod.clone());
        let over: Vec<PodUid> = self.waiting.prospects.iter().filter_map(over).collect();
        for pod in over {
            self.end_prospect(&pod);
        }
    }

    /// The pod will not take what it was woken for: the wake did not reach it, or it took too long.
    pub(crate) fn end_prospect(&mut self, pod: &PodUid) {
        if let Some(prospect) = self.waiting.prospects.remove(pod) {
            self.growth.room(prospect.node.as_str());
        }
    }

    /// Notes a plan; returns those to be woken now. Who has been booked or refused since the outlook is
    /// left alone.
    pub(crate) fn note_plan(&mut self, plan: Plan, now: Instant) -> Vec<PodRef> {
        for pod in plan.tried {
            if let Some(entry) = self.waiting.pods.get_mut(&pod) {
                entry.seen = entry.seen.max(plan.moment);
            }
        }
        let mut woken = Vec::new();
        for Wake { pod, node, charges } in plan.wakes {
            let Some(entry) = self.waiting.pods.get_mut(&pod) else {
                continue;
            };
            if entry.seen >= plan.moment {
                continue;
            }
            entry.seen = plan.moment;
            entry.wakes.add(now);
            woken.push(entry.pod.pod.clone());
            let until = now + PROSPECT_LASTS;
            let prospect = Prospect {
                node,
                charges,
                until,
            };
            self.waiting.prospects.insert(pod, prospect);
        }
        woken
    }
}

impl GrownNode {
    fn take(&mut self, charges: &BTreeMap<CardId, Hold>) {
        for room in &mut self.rooms {
            if let Some(hold) = charges.get(&room.card.id) {
                room.take(hold);
            }
        }
    }
}

impl GrownNode {
    fn without(&self, kept: &Kept) -> Vec<CardRoom> {
        let mut rooms = self.rooms.clone();
        for room in &mut rooms {
            if let Some(hold) = kept.charges.get(&room.card.id) {
                room.unclaim(hold);
            }
        }
        rooms
    }
}

impl Hopeful {
    /// Whether the node has something that the pod was not refused for.
    fn concerns(&self, grown: &Grown) -> bool {
        let allowed = |candidates: &Arc<NodeSet>| candidates.contains(grown.number);
        grown.cards > self.seen
            || (grown.room > self.seen && self.candidates.as_ref().is_none_or(allowed))
    }
}

/// For each request met so far, the nodes that have no room for it: rooms only shrink while planning.
#[derive(Default)]
struct Hopeless<'a>(Vec<(&'a PodAsk, BTreeSet<usize>)>);

/// More different requests than this are rare, and only cost time.
const REMEMBERED: usize = 64;

impl<'a> Hopeless<'a> {
    fn of(&mut self, ask: &'a PodAsk) -> Option<&mut BTreeSet<usize>> {
        let known = self.0.iter().position(|(known, _)| *known == ask);
        if known.is_none() && self.0.len() < REMEMBERED {
            self.0.push((ask, BTreeSet::new()));
        }
        let place = known.unwrap_or(self.0.len().saturating_sub(1));
        let (found, nodes) = self.0.get_mut(place)?;
        (*found == ask).then_some(nodes)
    }
}

impl Outlook {
    /// Decides whom to wake, at most so many.
    pub(crate) fn plan(mut self, most: usize) -> Plan {
        let mut plan = Plan {
            moment: self.moment,
            next: self.next,
            ..Plan::default()
        };
        let mut hopeless = Hopeless::default();
        for hopeful in &self.pods {
            if plan.wakes.len() == most {
                plan.unfinished = true;
                break;
            }
            let search = Search::new(&self.classes, &hopeful.pod.ask);
            let mut hopeless = hopeless.of(&hopeful.pod.ask);
            let found = self.nodes.iter_mut().enumerate().find_map(|(at, node)| {
                if !hopeful.concerns(&node.grown) {
                    return None;
                }
                if let Some(kept) = hopeful.kept.as_ref().filter(|kept| kept.node == node.name) {
                    return Some((search.place(&node.without(kept)).ok()?, node));
                }
                if hopeless.as_deref().is_some_and(|nodes| nodes.contains(&at)) {
                    return None;
                }
                if !search.fits(&node.rooms) {
                    hopeless.as_deref_mut().map(|nodes| nodes.insert(at));
                    return None;
                }
                Some((search.place(&node.rooms).ok()?, node))
            });
            let pod = hopeful.pod.pod.uid.clone();
            let Some((placement, node)) = found else {
                plan.tried.push(pod);
                continue;
            };
            let charges = placement.charges(&hopeful.pod.ask);
            if let Some(kept) = hopeful.kept.as_ref().filter(|kept| kept.node == node.name) {
                node.rooms = node.without(kept);
            }
            node.take(&charges);
            plan.wakes.push(Wake {
                pod,
                node: node.name.clone(),
                charges,
            });
        }
        plan
    }
}
