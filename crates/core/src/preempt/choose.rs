//! The choice of victims on one node.
//!
//! Looks at every set of cards that the pod could use, the cheapest cards first, and finds the cheapest victims for
//! each set ([`super::dive`]).

use std::cmp::Reverse;

use super::dive::{Dive, Found};
use super::sets::each_set;
use super::{Cost, Guard, Occupant, Plan, Rank, Site, VictimChoice};
use crate::amounts::{Amounts, MAX_DIMENSIONS};
use crate::ids::{CardId, PodUid};
use crate::placement::Hold;
use crate::room::CardRoom;
use crate::search::Search;
use crate::steps::Steps;

const MILLION: u64 = 1_000_000;
/// One set of cards may use up at most one in this many of the remaining steps, to leave some for other sets.
const PART_OF_STEPS: u32 = 8;
/// A set may always use this many steps: enough for the first descent on a large set of cards.
const MAX_DIVE: u32 = 1_000;

/// A pod that may be evicted, with its holds on the node's cards.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) pod: &'a PodUid,
    pub(super) cost: Cost,
    pub(super) budget: Option<usize>,
    pub(super) holds: Vec<(usize, Hold)>,
}

/// Finds the cheapest plan for the pod on this node that costs less than `limit`.
///
/// `headroom` is how many more evictions each disruption budget allows. `steps` limit the choice among victims; the
/// search has its own steps, which may be the same.
pub fn choose(
    site: &Site<'_>,
    search: &Search<'_>,
    rank: Rank,
    headroom: &[u32],
    limit: Option<&Cost>,
    steps: &Steps,
) -> VictimChoice {
    let mut rooms = site.rooms.clone();
    for going in site.occupants.iter().filter(|occupant| occupant.going) {
        for (card, hold) in holds(going, &site.rooms) {
            give(&mut rooms, card, &hold);
        }
    }
    if limit.is_some_and(|limit| *limit <= Cost::NOTHING) {
        return VictimChoice::Nobody;
    }
    let fits = search.decided(&rooms);
    if fits == Some(true) {
        return plan(search, rooms, Cost::NOTHING, &[]);
    }
    let candidates: Vec<Candidate<'_>> = site
        .occupants
        .iter()
        .filter_map(|occupant| Candidate::new(occupant, &site.rooms, rank, headroom))
        .collect();
    if candidates.is_empty() {
        return fits.map_or(VictimChoice::Unknown, |_| VictimChoice::Nobody);
    }
    let mut chooser = Chooser {
        search,
        rooms: &rooms,
        candidates,
        headroom,
        steps,
        missed: false,
    };
    let found = search.before_placing(|| chooser.cheapest(limit.copied()));
    let (cost, victims) = match found {
        Some(found) => found,
        None if chooser.missed => return VictimChoice::Unknown,
        None => return VictimChoice::Nobody,
    };
    let victims: Vec<&Candidate<'_>> = victims
        .iter()
        .filter_map(|victim| chooser.candidates.get(*victim))
        .collect();
    plan(search, rooms.clone(), cost, &victims)
}

fn plan(
    search: &Search<'_>,
    mut rooms: Vec<CardRoom>,
    cost: Cost,
    victims: &[&Candidate<'_>],
) -> VictimChoice {
    for (card, hold) in victims.iter().flat_map(|victim| &victim.holds) {
        give(&mut rooms, *card, hold);
    }
    let mut victims: Vec<PodUid> = victims.iter().map(|victim| victim.pod.clone()).collect();
    victims.sort_unstable();
    // The pod fits, so placing it can only fail for lack of steps.
    search
        .place(&rooms)
        .map_or(VictimChoice::Unknown, |placement| {
            VictimChoice::Plan(Plan {
                victims,
                placement,
                cost,
            })
        })
}

pub(super) fn give(rooms: &mut [CardRoom], card: usize, hold: &Hold) {
    if let Some(room) = rooms.get_mut(card) {
        room.give(hold);
    }
}

pub(super) fn take(rooms: &mut [CardRoom], card: usize, hold: &Hold) {
    if let Some(room) = rooms.get_mut(card) {
        room.take(hold);
    }
}

fn holds(occupant: &Occupant<'_>, rooms: &[CardRoom]) -> Vec<(usize, Hold)> {
    let place = |id: &CardId| rooms.iter().position(|room| room.card.id == *id);
    let charges = occupant.charges.iter();
    charges
        .filter_map(|(id, hold)| Some((place(id)?, *hold)))
        .collect()
}

impl<'a> Candidate<'a> {
    /// `None` if the pod must stay, or its eviction would not help.
    fn new(
        occupant: &Occupant<'a>,
        rooms: &[CardRoom],
        rank: Rank,
        headroom: &[u32],
    ) -> Option<Self> {
        let budget = match occupant.guard {
            Guard::Free => None,
            Guard::Counted(budget) => Some(budget),
            Guard::Protected => return None,
        };
        if budget.is_some_and(|budget| headroom.get(budget).is_none_or(|left| *left == 0)) {
            return None;
        }
        let holds = holds(occupant, rooms);
        if occupant.going || occupant.rank >= rank || holds.is_empty() {
            return None;
        }
        Some(Self {
            pod: occupant.pod,
            cost: occupant.cost(rooms),
            budget,
            holds,
        })
    }
}

impl Occupant<'_> {
    /// The cost of evicting only this pod from these cards.
    pub fn cost(&self, rooms: &[CardRoom]) -> Cost {
        let amounts = holds(self, rooms).into_iter().map(|(card, hold)| {
            let room = rooms.get(card);
            room.map_or(0, |room| millionths(&hold, &room.card.capacity))
        });
        Cost {
            rank: Some(self.rank),
            within_budget: u32::from(!self.rank.is_over_budget()),
            victims: 1,
            amount: amounts.fold(0, u64::saturating_add),
            oldest: Reverse(self.started),
        }
    }
}

/// The part of the card that is held, in millionths: that of the dimension where it is largest.
pub(super) fn millionths(hold: &Hold, capacity: &Amounts) -> u64 {
    let Hold::Part(amounts) = hold else {
        return MILLION;
    };
    let part = |dimension| {
        let (amount, all) = (amounts.get(dimension), capacity.get(dimension));
        let millionths = u128::from(amount) * u128::from(MILLION);
        millionths.checked_div(u128::from(all)).unwrap_or(0)
    };
    let largest = (0..MAX_DIMENSIONS).map(part).max().unwrap_or(0);
    u64::try_from(largest).unwrap_or(u64::MAX)
}

struct Chooser<'a> {
    search: &'a Search<'a>,
    rooms: &'a [CardRoom],
    candidates: Vec<Candidate<'a>>,
    headroom: &'a [u32],
    steps: &'a Steps,
    /// Whether the steps ran out somewhere, so that a plan may have been missed.
    missed: bool,
}

impl Chooser<'_> {
    fn cheapest(&mut self, limit: Option<Cost>) -> Option<Found> {
        let mut emptied = self.rooms.to_vec();
        for (card, hold) in self.candidates.iter().flat_map(|victim| &victim.holds) {
            give(&mut emptied, *card, hold);
        }
        let fits = self.search.decided(&emptied);
        if fits != Some(true) {
            self.missed = fits.is_none();
            return None;
        }
        let spans = self.search.spans(&emptied);
        let sizes: Vec<usize> = spans
            .iter()
            .map(|span| span.most.min(span.cards.len()))
            .collect();
        let mut floors = vec![Cost::NOTHING; self.rooms.len()];
        let groups: Vec<Vec<usize>> = spans
            .into_iter()
            .map(|span| self.promising(span.cards, limit, &mut floors))
            .collect();
        let mut best: Option<Found> = None;
        each_set(&groups, &sizes, &mut |set| {
            let limit = best.as_ref().map(|(cost, _)| *cost).or(limit);
            let floor = set.iter().filter_map(|card| floors.get(*card)).max();
            let hopeless = limit.is_some_and(|limit| floor.is_some_and(|floor| *floor >= limit));
            if !hopeless {
                let (found, complete) = self.cheapest_on(set, limit);
                best = found.or_else(|| best.take());
                self.missed |= !complete;
            }
            let goes_on = self.steps.spend();
            self.missed |= !goes_on;
            goes_on
        });
        best
    }

    /// The cards of a class, ordered by what each costs alone; that is the least that any set with the card costs.
    /// Leaves out cards that cost too much.
    fn promising(
        &mut self,
        cards: Vec<usize>,
        limit: Option<Cost>,
        floors: &mut [Cost],
    ) -> Vec<usize> {
        if !self.search.is_simple() {
            return cards;
        }
        let mut promising: Vec<(Cost, usize)> = Vec::new();
        for card in cards {
            match self.cheapest_on(&[card], limit) {
                (Some((cost, _)), complete) => {
                    promising.push((cost, card));
                    if let Some(floor) = floors.get_mut(card).filter(|_| complete) {
                        *floor = cost;
                    }
                }
                (None, true) => {}
                (None, false) => promising.push((limit.unwrap_or(Cost::NOTHING), card)),
            }
        }
        promising.sort_unstable();
        promising.into_iter().map(|(_, card)| card).collect()
    }

    /// The cheapest victims below the limit that make room on these cards, and whether it is certain that there are no
    /// cheaper ones.
    fn cheapest_on(&mut self, set: &[usize], limit: Option<Cost>) -> (Option<Found>, bool) {
        let most = (self.steps.left() / PART_OF_STEPS).max(MAX_DIVE);
        let portion = self.steps.portion(most);
        let dive = Dive::new(self.search, &self.candidates, self.rooms, set, &portion);
        let (found, complete) = dive.cheapest(self.headroom.to_vec(), limit);
        self.steps.settle(&portion);
        (found, complete)
    }
}
