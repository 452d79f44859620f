//! Whom to wake: exactly those whose pods would fit now, each counted against what the ones before it
//! will take.
//!
//! Looking, deciding and noting are three steps, so that the decision itself, which can take a while
//! with many pods and nodes, is made without the lock.

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

/// What the decision is made from.
#[derive(Debug)]
pub struct Outlook {
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
    pod: Arc<KnownPod>,
    candidates: Option<Arc<NodeSet>>,
    heard: Moment,
    seen: Moment,
    passed_over: u32,
    /// Room that is kept for it, and counts against everybody else.
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

/// Whom to wake, and who need not be looked at again for what is known now.
#[derive(Debug, Default)]
pub struct Plan {
    moment: Moment,
    wakes: Vec<Wake>,
    tried: Vec<PodUid>,
    /// There were no steps left to search for these.
    passed_over: Vec<PodUid>,
    /// More would fit than were asked for, or are still to be searched for.
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
    /// What there is to decide now.
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
    /// Ends prospects that have lasted too long. The pods have not taken what they were woken for: others may try, on
    /// the nodes that are returned. Each was heard of, so it is not woken again for the same room.
    pub(crate) fn end_prospects(&mut self, now: Instant) -> Vec<NodeName> {
        let over = self
            .prospects
            .extract_if(.., |_, prospect| prospect.until <= now);
        over.map(|(_, prospect)| prospect.node).collect()
    }

    /// The wake did not reach the pod: it is as if it had not been woken. Returns where it had a prospect.
    pub(crate) fn wake_failed(&mut self, pod: &PodUid) -> Option<NodeName> {
        let prospect = self.prospects.remove(pod)?;
        if let Some(entry) = self.pods.get_mut(pod) {
            entry.heard = prospect.heard;
        }
        Some(prospect.node)
    }

    /// Notes a plan; returns those to be woken now. Who has been booked or refused since the outlook is
    /// left alone.
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
    /// A node that takes the pod, and where on it. Nodes without room for anybody with the same request
    /// are struck from the list.
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

    /// Whether the node has something that the scheduler has not tried the pod with.
    fn concerns(&self, grown: &NodeGrowth) -> bool {
        let allowed = |candidates: &Arc<NodeSet>| candidates.contains(grown.number);
        grown.last() > self.seen
            && (grown.cards > self.heard
                || (grown.room > self.heard && self.candidates.as_ref().is_none_or(allowed)))
    }
}

/// For each request met so far, the places of the nodes that may still have room for it: rooms only
/// shrink while planning, so what had none need not be looked at again.
#[derive(Default)]
struct Hopes<'a>(Vec<(&'a PodAsk, Vec<usize>)>);

/// More different requests than this are rare, and only cost time.
const REMEMBERED: usize = 256;

impl<'a> Hopes<'a> {
    /// Of `nodes` nodes, for the request; to be given back with [`Self::keep`].
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

/// In which order the pods are looked at: best first. Only those that need steps wait for others of their kind that
/// were passed over more often, so that each is searched for in the end, however many others wait.
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
    /// Decides whom to wake, at most so many.
    pub fn plan(mut self, most: usize) -> Plan {
        let mut plan = Plan {
            moment: self.moment,
            next: self.next,
            ..Plan::default()
        };
        let mut hopes = Hopes::default();
        // For all pods of several containers together; others need none.
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
                // begin with it again. One that got only what others left is searched for again.
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
