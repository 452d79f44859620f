//! Which pods to wake: exactly those that would fit now, after the pods before them have taken their room.
//!
//! Reading the state, deciding, and noting the plan are three steps. The decision, which can take a while with many
//! pods and nodes, is made without the lock.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use gpushare_core::placement::Charges;
use gpushare_core::room::CardRoom;
use gpushare_core::{Classes, Ledger, NodeName, Placement, PodAsk, PodUid, Search, Steps};
use gpushare_kube::PodRef;

use super::{PROSPECT_LASTS, Prospect, Waiting};
use crate::node_set::NodeSet;
use crate::nodes::growth::{Growth, Moment, NodeGrowth};
use crate::pods::KnownPod;

/// What a decision about which pods to wake is based on.
#[derive(Debug)]
pub struct Outlook {
    classes: Classes,
    moment: Moment,
    /// Best first.
    pods: Vec<Hopeful>,
    /// The nodes that have grown, with the room that prospects leave.
    nodes: Vec<GrownNode>,
    /// When a pod that pauses now may be woken again, or a prospect ends.
    next: Option<Instant>,
}

#[derive(Debug)]
struct Hopeful {
    pod: Arc<KnownPod>,
    candidates: Option<Arc<NodeSet>>,
    heard: Moment,
    seen: Moment,
    passed_over: u32,
    /// Room that is claimed for it, and counts against all other pods.
    kept: Option<Kept>,
}

#[derive(Debug)]
struct Kept {
    node: NodeName,
    charges: Charges,
}

#[derive(Debug)]
struct GrownNode {
    name: NodeName,
    grown: NodeGrowth,
    rooms: Arc<Vec<CardRoom>>,
}

/// Which pods to wake, and which need not be checked again until something changes.
#[derive(Debug, Default)]
pub struct Plan {
    moment: Moment,
    wakes: Vec<Wake>,
    tried: Vec<PodUid>,
    /// There were no steps left to search for these.
    passed_over: Vec<PodUid>,
    /// More pods may fit than were asked for, or some pods still have to be searched for.
    pub unfinished: bool,
    pub next: Option<Instant>,
}

#[derive(Debug)]
struct Wake {
    pod: PodUid,
    node: NodeName,
    charges: Charges,
}

impl Outlook {
    /// What a decision about which pods to wake is based on now.
    pub(crate) fn new(waiting: &Waiting, ledger: &Ledger, growth: &Growth, now: Instant) -> Self {
        let mut next: Option<Instant> = None;
        let mut pods = Vec::new();
        let nothing_new = |seen: Moment| growth.since(seen).next().is_none();
        for entry in waiting.iter() {
            let pod = &entry.pod.pod.uid;
            if waiting.prospects.contains_key(pod) || nothing_new(entry.seen) {
                continue;
            }
            if let Some(again) = entry.wakes.pauses_at(now) {
                next = Some(next.map_or(again, |next| next.min(again)));
                continue;
            }
            pods.push(Hopeful {
                pod: entry.pod.clone(),
                candidates: entry.candidates.clone(),
                heard: entry.heard,
                seen: entry.seen,
                passed_over: entry.passed_over,
                kept: ledger.claimed(pod.as_str()).map(|claim| Kept {
                    node: claim.node.clone(),
                    charges: claim.placement.charges(&entry.pod.ask),
                }),
            });
        }
        let oldest = pods.iter().map(|hopeful| hopeful.seen).min();
        let ends = waiting.prospects.values().map(|prospect| prospect.until);
        Self {
            classes: ledger.classes().clone(),
            moment: growth.now(),
            nodes: oldest.map_or_else(Vec::new, |oldest| {
                grown_nodes(waiting, ledger, growth, oldest)
            }),
            pods,
            next: ends.chain(next).min(),
        }
    }
}

fn grown_nodes(
    waiting: &Waiting,
    ledger: &Ledger,
    growth: &Growth,
    since: Moment,
) -> Vec<GrownNode> {
    let mut nodes: Vec<GrownNode> = growth
        .since(since)
        .filter_map(|(name, grown)| {
            Some(GrownNode {
                name: name.clone(),
                grown: *grown,
                rooms: ledger.node(name.as_str())?.shared_rooms(),
            })
        })
        .collect();
    for prospect in waiting.prospects.values() {
        let mut nodes = nodes.iter_mut();
        if let Some(node) = nodes.find(|node| node.name == prospect.node) {
            node.take(&prospect.charges);
        }
    }
    nodes
}

impl Waiting {
    /// Ends prospects that have lasted too long. Returns their nodes: the pods have not taken the room that they were
    /// woken for, so others may try. The same pods are not woken again for that room.
    pub(crate) fn end_prospects(&mut self, now: Instant) -> Vec<NodeName> {
        let over = self
            .prospects
            .extract_if(.., |_, prospect| prospect.until <= now);
        over.map(|(_, prospect)| prospect.node).collect()
    }

    /// The wake did not reach the pod, so the scheduler has not tried it with that room. Returns the node of its prospect.
    pub(crate) fn wake_failed(&mut self, pod: &PodUid) -> Option<NodeName> {
        let prospect = self.prospects.remove(pod)?;
        if let Some(entry) = self.pods.get_mut(pod) {
            entry.heard = prospect.heard;
        }
        Some(prospect.node)
    }

    /// Notes a plan. Returns the pods to be woken now. Pods that were booked or refused since the outlook are skipped.
    pub(crate) fn note_plan(&mut self, plan: Plan, now: Instant) -> Vec<PodRef> {
        for pod in plan.tried {
            if let Some(entry) = self.pods.get_mut(&pod) {
                entry.seen = entry.seen.max(plan.moment);
                entry.passed_over = 0;
            }
        }
        for pod in plan.passed_over {
            let entry = self.pods.get_mut(&pod);
            if let Some(entry) = entry.filter(|entry| entry.seen < plan.moment) {
                entry.passed_over = entry.passed_over.saturating_add(1);
            }
        }
        let mut woken = Vec::new();
        for Wake { pod, node, charges } in plan.wakes {
            let Some(entry) = self.pods.get_mut(&pod) else {
                continue;
            };
            if entry.seen >= plan.moment {
                continue;
            }
            let prospect = Prospect {
                node,
                charges,
                until: now + PROSPECT_LASTS,
                heard: entry.heard,
            };
            entry.heard = plan.moment;
            entry.seen = plan.moment;
            entry.passed_over = 0;
            entry.wakes.add(now);
            woken.push(entry.pod.pod.clone());
            self.prospects.insert(pod, prospect);
        }
        woken
    }
}

impl GrownNode {
    fn take(&mut self, charges: &Charges) {
        for room in Arc::make_mut(&mut self.rooms) {
            if let Some(hold) = charges.get(&room.card.id) {
                room.take(hold);
            }
        }
    }

    fn without(&self, kept: &Kept) -> Vec<CardRoom> {
        let mut rooms = self.rooms.to_vec();
        for room in &mut rooms {
            if let Some(hold) = kept.charges.get(&room.card.id) {
                room.unclaim(hold);
            }
        }
        rooms
    }
}

impl Hopeful {
    /// A placement of the pod, and its node. Nodes without room for the request are removed from `left`.
    fn find<'n>(
        &self,
        search: &Search<'_>,
        nodes: &'n mut [GrownNode],
        left: &mut Vec<usize>,
    ) -> Option<(Placement, &'n mut GrownNode)> {
        if let Some(kept) = &self.kept {
            let mut places = nodes.iter().enumerate();
            let (at, node) = places.find(|(_, node)| node.name == kept.node)?;
            if self.concerns(&node.grown)
                && let Ok(placement) = search.place(&node.without(kept))
            {
                return Some((placement, nodes.get_mut(at)?));
            }
        }
        let mut found = None;
        left.retain(|at| {
            let Some(node) = nodes.get(*at).filter(|_| found.is_none()) else {
                return true;
            };
            if !self.concerns(&node.grown) {
                return true;
            }
            let fits = search.fits(&node.rooms);
            found = fits.then_some(*at);
            fits
        });
        let node = nodes.get_mut(found?)?;
        Some((search.place(&node.rooms).ok()?, node))
    }

    /// Whether the node has grown in a way that the scheduler has not tried the pod with.
    fn concerns(&self, grown: &NodeGrowth) -> bool {
        let allowed = |candidates: &Arc<NodeSet>| candidates.contains(grown.number);
        grown.last() > self.seen
            && (grown.cards > self.heard
                || (grown.room > self.heard && self.candidates.as_ref().is_none_or(allowed)))
    }
}

/// For each request met so far, the places of the nodes that may still have room for it. Rooms only shrink while
/// planning, so a node without room need not be checked again.
#[derive(Default)]
struct Hopes<'a>(Vec<(&'a PodAsk, Vec<usize>)>);

/// More different requests than this are rare. Those are not remembered, which only costs time.
const REMEMBERED: usize = 256;

impl<'a> Hopes<'a> {
    /// The places that are left for the request, at first those of all `nodes` nodes. The caller returns them with
    /// [`Self::keep`].
    fn take(&mut self, ask: &'a PodAsk, nodes: usize) -> Vec<usize> {
        let known = self.0.iter_mut().find(|(known, _)| *known == ask);
        known.map_or_else(|| (0..nodes).collect(), |(_, left)| std::mem::take(left))
    }

    fn keep(&mut self, ask: &'a PodAsk, left: Vec<usize>) {
        if let Some((_, known)) = self.0.iter_mut().find(|(known, _)| *known == ask) {
            *known = left;
        } else if self.0.len() < REMEMBERED {
            self.0.push((ask, left));
        }
    }
}

/// The order in which the pods are checked: best first. A pod of several containers comes after those that were passed
/// over more often, so that each of them is searched for in the end, however many others wait.
fn in_turn(pods: &[Hopeful]) -> impl Iterator<Item = &Hopeful> {
    let passed_over = pods.iter().map(|hopeful| hopeful.passed_over);
    let most = passed_over.max().unwrap_or(0);
    let (first, mut then): (Vec<&Hopeful>, Vec<&Hopeful>) = pods
        .iter()
        .partition(|hopeful| hopeful.passed_over == most || !hopeful.pod.ask.is_complex());
    then.sort_by_key(|hopeful| Reverse(hopeful.passed_over));
    first.into_iter().chain(then)
}

impl Plan {
    /// The round has no steps left for the pod.
    fn pass_over(&mut self, pod: PodUid) {
        self.passed_over.push(pod);
        self.unfinished = true;
    }
}

impl Outlook {
    /// Decides which pods to wake, at most this many.
    pub fn plan(mut self, most: usize) -> Plan {
        let mut plan = Plan {
            moment: self.moment,
            next: self.next,
            ..Plan::default()
        };
        let mut hopes = Hopes::default();
        // Shared by all pods of several containers; other pods need no steps.
        let steps = Steps::for_request();
        for hopeful in in_turn(&self.pods) {
            if plan.wakes.len() == most {
                plan.unfinished = true;
                break;
            }
            let (ask, pod) = (&hopeful.pod.ask, hopeful.pod.pod.uid.clone());
            if ask.is_complex() && steps.are_used_up() {
                plan.pass_over(pod);
                continue;
            }
            let had_all = steps.left() == steps.given();
            let search = Search::new(&self.classes, ask, &steps);
            let mut left = hopes.take(ask, self.nodes.len());
            let found = hopeful.find(&search, &mut self.nodes, &mut left);
            hopes.keep(ask, left);
            let Some((placement, node)) = found else {
                // The pod whose search used up all the steps of a round counts as tried; otherwise the next round would
                // begin with it again. A pod that had only a part of the steps is searched for again.
                if ask.is_complex() && steps.are_used_up() && !had_all {
                    plan.pass_over(pod);
                } else {
                    plan.tried.push(pod);
                }
                continue;
            };
            let charges = placement.charges(ask);
            if let Some(kept) = hopeful.kept.as_ref().filter(|kept| kept.node == node.name) {
                node.rooms = Arc::new(node.without(kept));
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
