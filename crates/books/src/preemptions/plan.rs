//! Proposals: on which node a pod's preemption costs least, from what is known now.
//!
//! Searching thousands of nodes takes a while, so it is done in portions, and others can use the state in between. A
//! proposal is checked again before it is accepted.

use std::collections::HashSet;

use gpushare_core::ledger::{Booking, BookingState, NodeView};
use gpushare_core::preempt::{Cost, Guard, Occupant, Rank, Site, VictimChoice, choose};
use gpushare_core::{NodeName, Placement, PodUid, Steps};
use gpushare_kube::PodRef;
use gpushare_kube::budgets::Budgets;

use super::{Now, Situation, StaleProposal};
use crate::pods::KnownPod;

/// The most steps on one node: half to choose victims, half to place a pod of several containers.
const STEPS_ON_A_NODE: u32 = 4 * Steps::PER_NODE;
/// After this many steps, the remaining nodes are left to the next portion, so that others can use the state in
/// between.
const STEPS_AT_ONCE: u32 = 2 * Steps::PER_NODE;
/// How long after its deadline a victim may still end. After that, it counts as stuck.
const STUCK_AFTER_SECONDS: i64 = 60;

/// The constraints of a decision.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub budgets: Budgets,
    /// Pods that are assumed to end, whatever is decided here.
    pub going: HashSet<PodUid>,
}

/// Which pods to evict from which node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub node: NodeName,
    /// Pods that count for a disruption budget come first: if it refuses one of them, the others stay too.
    pub victims: Vec<PodUid>,
    pub cost: Cost,
}

/// The result of searching nodes for victims.
#[derive(Debug, Default)]
pub struct Survey {
    pub best: Option<Proposal>,
    /// On some node the steps were used up before it was known whether evictions make room.
    pub cut: bool,
    /// How many of the nodes were searched, counted from the first.
    pub nodes: usize,
}

impl Situation<'_> {
    /// The cheapest proposal that costs less than the limit, on as many of these nodes as can be searched in one
    /// portion, but at least on one.
    pub fn propose(
        &self,
        preemptor: &KnownPod,
        nodes: &[NodeName],
        terms: &Terms,
        limit: Option<&Cost>,
        steps: &Steps,
        now: Now,
    ) -> Survey {
        let search = self.ledger.search(&preemptor.ask, steps);
        let headroom = terms.budgets.headroom();
        let doomed = self.doomed();
        let (mut survey, at_first) = (Survey::default(), steps.left());
        for node in nodes {
            if at_first - steps.left() >= STEPS_AT_ONCE {
                break;
            }
            let limit = survey.best.as_ref().map(|best| &best.cost).or(limit);
            let site = self.site(preemptor, node, terms, &doomed, now);
            let (rank, headroom) = (preemptor.rank, headroom.as_slice());
            let chosen = steps.within(STEPS_ON_A_NODE, || {
                choose(&site, &search, rank, headroom, limit, steps)
            });
            survey.nodes += 1;
            let plan = match chosen {
                VictimChoice::Plan(plan) => plan,
                VictimChoice::Nobody => continue,
                VictimChoice::Unknown => {
                    survey.cut = true;
                    continue;
                }
            };
            let mut victims = plan.victims;
            victims.sort_by_key(|pod| self.guard(pod, &terms.budgets) == Guard::Free);
            survey.best = Some(Proposal {
                node: node.clone(),
                victims,
                cost: plan.cost,
            });
        }
        survey
    }

    /// Whether the pod fits on one of these nodes without evictions.
    pub fn fits_somewhere(&self, preemptor: &KnownPod, nodes: &[NodeName]) -> bool {
        let steps = Steps::for_request();
        let search = self.ledger.search(&preemptor.ask, &steps);
        let uid = &preemptor.pod.uid;
        let fits = |node: &NodeName| self.ledger.fit(node.as_str(), uid, &search).is_ok();
        nodes.iter().any(fits)
    }

    /// Whether disruption budgets allow the eviction of all these pods together.
    pub fn may_all_go(&self, victims: &[PodUid], budgets: &Budgets) -> bool {
        let mut headroom = budgets.headroom();
        for victim in victims {
            match self.guard(victim, budgets) {
                Guard::Free => {}
                Guard::Counted(budget) => match headroom.get_mut(budget) {
                    Some(left) if *left > 0 => *left -= 1,
                    _ => return false,
                },
                Guard::Protected => return false,
            }
        }
        true
    }

    /// What these pods, which are on the node's cards, cost together.
    pub fn cost_of(&self, node: &NodeName, pods: &[PodUid]) -> Cost {
        let view = self.ledger.node(node.as_str());
        let rooms = view.map(NodeView::rooms).unwrap_or_default();
        let occupants = pods.iter().filter_map(|pod| {
            let (booking, known) = (
                self.ledger.booking(pod.as_str())?,
                self.pods.get(pod.as_str())?,
            );
            Some(known.occupant(pod, booking, &Budgets::default(), true))
        });
        occupants.fold(Cost::NOTHING, |sum, occupant| {
            sum.plus(&occupant.cost(rooms))
        })
    }

    /// Where the proposal would place the pod now, and the pods whose claims must end for it.
    pub(crate) fn check(
        &self,
        preemptor: &KnownPod,
        proposal: &Proposal,
        now: Now,
    ) -> Result<(Placement, Vec<PodRef>), StaleProposal> {
        let pod = &preemptor.pod.uid;
        let known = self.pods.get(pod.as_str());
        let wants = known.is_some_and(|known| known.wants_node());
        let booked = self.ledger.booking(pod.as_str()).is_some();
        if !wants || booked || self.preemptions.is_under_way(pod) {
            return Err(StaleProposal::Pod);
        }
        self.still_makes_room(preemptor, proposal, now)
            .ok_or(StaleProposal::Node)
    }

    /// `None` if the proposal would not make room.
    fn still_makes_room(
        &self,
        preemptor: &KnownPod,
        proposal: &Proposal,
        now: Now,
    ) -> Option<(Placement, Vec<PodRef>)> {
        let terms = Terms {
            going: proposal.victims.iter().cloned().collect(),
            ..Terms::default()
        };
        for victim in &proposal.victims {
            let known = self.pods.get(victim.as_str());
            if known.is_some_and(|known| known.rank >= preemptor.rank) {
                return None;
            }
        }
        let steps = Steps::for_request();
        let search = self.ledger.search(&preemptor.ask, &steps);
        let mut site = self.site(preemptor, &proposal.node, &terms, &self.doomed(), now);
        let place = |site: &Site<'_>| {
            let chosen = choose(site, &search, Rank::LOWEST, &[], None, &Steps::new(0));
            Some(chosen.plan()?.placement)
        };
        let alone = place(&site)?;
        let node = proposal.node.as_str();
        let own = |pod: &PodUid| *pod == preemptor.pod.uid;
        site.rooms = self.ledger.rooms_without_claims(node, own);
        if let Some(beside_others) = place(&site) {
            return Some((beside_others, Vec::new()));
        }
        let outranked = self.outranked(preemptor, &proposal.node, &alone);
        Some((alone, outranked))
    }

    /// The pods of lower rank that claim a part of these cards.
    fn outranked(
        &self,
        preemptor: &KnownPod,
        node: &NodeName,
        placement: &Placement,
    ) -> Vec<PodRef> {
        let cards = placement.cards();
        let claims = self.ledger.claims().filter(|(_, claim)| {
            let mut claimed = claim.placement.cards().into_iter();
            claim.node == *node && claimed.any(|card| cards.contains(&card))
        });
        claims
            .filter(|(pod, _)| self.is_outranked(pod, preemptor))
            .filter_map(|(pod, _)| self.pods.reference(pod))
            .collect()
    }

    fn is_outranked(&self, pod: &PodUid, preemptor: &KnownPod) -> bool {
        let known = self.pods.get(pod.as_str());
        known.is_some_and(|known| known.rank < preemptor.rank)
    }

    /// Victims of preemptions under way. They will end, even if they have not been evicted yet.
    fn doomed(&self) -> HashSet<&PodUid> {
        let live = self.preemptions.live.values();
        live.flat_map(|live| &live.record.victims).collect()
    }

    fn site<'s>(
        &'s self,
        preemptor: &KnownPod,
        node: &NodeName,
        terms: &Terms,
        doomed: &HashSet<&PodUid>,
        now: Now,
    ) -> Site<'s> {
        let outranks =
            |pod: &PodUid| *pod == preemptor.pod.uid || self.is_outranked(pod, preemptor);
        let view = self.ledger.node(node.as_str());
        let bookings = view.into_iter().flat_map(NodeView::bookings);
        let occupant = |(pod, booking): (&'s PodUid, &'s Booking)| {
            let known = self.pods.get(pod.as_str())?;
            let movable = matches!(
                booking.state,
                BookingState::Settled | BookingState::Confirmed
            );
            if !movable || known.is_stuck(now) {
                return None;
            }
            let going = known.preemption.ends_by.is_some()
                || doomed.contains(pod)
                || terms.going.contains(pod);
            Some(known.occupant(pod, booking, &terms.budgets, going))
        };
        Site {
            rooms: self.ledger.rooms_without_claims(node.as_str(), outranks),
            occupants: bookings.filter_map(occupant).collect(),
        }
    }

    fn guard(&self, pod: &PodUid, budgets: &Budgets) -> Guard {
        let known = self.pods.get(pod.as_str());
        known.map_or(Guard::Free, |known| known.guard(budgets))
    }
}

impl KnownPod {
    fn occupant<'s>(
        &self,
        pod: &'s PodUid,
        booking: &'s Booking,
        budgets: &Budgets,
        going: bool,
    ) -> Occupant<'s> {
        Occupant {
            pod,
            rank: self.rank,
            started: self.preemption.started,
            guard: self.guard(budgets),
            going,
            charges: booking.charges(),
        }
    }

    /// A pod that does not run is not protected, because disruption budgets count only running pods.
    fn guard(&self, budgets: &Budgets) -> Guard {
        if self.preemption.running {
            budgets.guard(&self.pod.namespace, &self.preemption.labels)
        } else {
            Guard::Free
        }
    }

    /// Whether its end is long overdue, so that neither waiting nor evicting helps.
    pub(super) fn is_stuck(&self, now: Now) -> bool {
        let overdue = |ends: i64| ends.saturating_add(STUCK_AFTER_SECONDS) < now.millis / 1000;
        self.preemption.ends_by.is_some_and(overdue)
    }

    /// When it will count as stuck, in milliseconds since 1970.
    pub(super) fn stuck_at(&self) -> Option<i64> {
        let seconds = self
            .preemption
            .ends_by?
            .saturating_add(STUCK_AFTER_SECONDS + 1);
        Some(seconds.saturating_mul(1000))
    }
}
