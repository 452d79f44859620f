//! The cheapest victims for one set of cards.
//!
//! A branch-and-bound search: candidates are taken or spared one after the other. A branch ends when
//! the cards have enough room, when they would not have enough even if all remaining candidates were
//! taken, when it cannot become cheaper than the best, or when the steps are used up. A candidate is
//! taken only for a card that still needs it, and never instead of one that holds the same and costs
//! less.

use std::cell::Cell;
use std::cmp::Reverse;

use super::Cost;
use super::choose::{Candidate, give, millionths, take};
use crate::amounts::{Amounts, MAX_DIMENSIONS};
use crate::placement::Hold;
use crate::room::CardRoom;
use crate::search::Search;
use crate::steps::Steps;

/// The cost of the victims, and their places among the candidates.
pub(super) type Found = (Cost, Vec<usize>);

struct Turn {
    victim: usize,
    cost: Cost,
    budget: Option<usize>,
    /// By the card's place in the set.
    holds: Vec<(usize, Hold)>,
}

impl Turn {
    /// Whether the other candidate can be spared whenever this one is: it frees the same room and
    /// costs no less.
    fn outdoes(&self, other: &Self) -> bool {
        self.holds == other.holds
            && self.budget == other.budget
            && self.cost.rank <= other.cost.rank
            && self.cost.within_budget <= other.cost.within_budget
            && self.cost.amount <= other.cost.amount
            && self.cost.oldest <= other.cost.oldest
    }
}

pub(super) struct Dive<'a> {
    search: &'a Search<'a>,
    /// Whether each card can be checked by itself, see `Search::is_simple`.
    simple: bool,
    /// The candidates, in the order in which they are decided.
    turns: Vec<Turn>,
    /// The cards as they are without the victims taken so far.
    rooms: Vec<CardRoom>,
    /// The cards as they are without the victims taken so far and without the candidates not decided
    /// yet.
    hopeful: Vec<CardRoom>,
    headroom: Vec<u32>,
    steps: &'a Steps,
    taken: Vec<usize>,
    best: Option<Found>,
    limit: Option<Cost>,
    /// Whether the steps have sufficed so far.
    complete: Cell<bool>,
}

impl<'a> Dive<'a> {
    pub(super) fn new(
        search: &'a Search<'a>,
        candidates: &[Candidate<'_>],
        rooms: &[CardRoom],
        set: &[usize],
        steps: &'a Steps,
    ) -> Self {
        let place = |card: &usize| set.iter().position(|other| other == card);
        let turn = |(victim, candidate): (usize, &Candidate<'_>)| {
            let here = |(card, hold): &(usize, Hold)| Some((place(card)?, *hold));
            let holds: Vec<(usize, Hold)> = candidate.holds.iter().filter_map(here).collect();
            (!holds.is_empty()).then_some(Turn {
                victim,
                cost: candidate.cost,
                budget: candidate.budget,
                holds,
            })
        };
        let mut turns: Vec<Turn> = candidates.iter().enumerate().filter_map(turn).collect();
        // Ordered card by card, so that a card that can no longer be freed is noticed at once.
        turns.sort_by_key(|turn| {
            let first = turn.holds.iter().map(|(card, _)| *card).min();
            (first, turn.cost, turn.victim)
        });
        let rooms: Vec<CardRoom> = set
            .iter()
            .filter_map(|card| rooms.get(*card).cloned())
            .collect();
        Self {
            search,
            simple: search.is_simple(),
            turns,
            hopeful: rooms.clone(),
            rooms,
            headroom: Vec::new(),
            steps,
            taken: Vec::new(),
            best: None,
            limit: None,
            complete: Cell::new(true),
        }
    }

    /// The cheapest victims below the limit, and whether it is certain that there are no cheaper ones.
    pub(super) fn cheapest(
        mut self,
        headroom: Vec<u32>,
        limit: Option<Cost>,
    ) -> (Option<Found>, bool) {
        self.headroom = headroom;
        self.limit = limit;
        for (card, hold) in self.turns.iter().flat_map(|turn| &turn.holds) {
            give(&mut self.hopeful, *card, hold);
        }
        if self.does(&self.hopeful) {
            self.decide(0, Cost::NOTHING);
        }
        (self.best, self.complete.get())
    }

    fn does(&self, rooms: &[CardRoom]) -> bool {
        if self.simple {
            return rooms.iter().all(|room| self.search.is_served_by(room));
        }
        let decided = self.search.decided(rooms);
        if decided.is_none() {
            self.complete.set(false);
        }
        decided == Some(true)
    }

    /// Decides about the candidates from `at` on; `cost` is that of the victims taken so far.
    fn decide(&mut self, at: usize, cost: Cost) {
        if !self.steps.spend() {
            self.complete.set(false);
            return;
        }
        if self.is_too_much(&cost) {
            return;
        }
        if self.does(&self.rooms) {
            self.limit = Some(cost);
            self.best = Some((cost, self.taken.clone()));
            return;
        }
        if at >= self.turns.len() || self.is_too_much(&cost.plus(&self.least_to_come(at))) {
            return;
        }
        self.take_and_go_on(at, cost);
        self.spare_and_go_on(at, cost);
    }

    fn is_too_much(&self, cost: &Cost) -> bool {
        self.limit.is_some_and(|limit| limit <= *cost)
    }

    fn take_and_go_on(&mut self, at: usize, cost: Cost) {
        let Some(turn) = self.turns.get(at) else {
            return;
        };
        let (victim, own, budget) = (turn.victim, turn.cost, turn.budget);
        let needed = |(card, _): &(usize, Hold)| {
            let room = self.rooms.get(*card);
            room.is_some_and(|room| !self.search.is_served_by(room))
        };
        if !turn.holds.iter().any(needed) || !use_up(&mut self.headroom, budget) {
            return;
        }
        for (card, hold) in &turn.holds {
            give(&mut self.rooms, *card, hold);
        }
        self.taken.push(victim);
        self.decide(at + 1, cost.plus(&own));
        self.taken.pop();
        for (card, hold) in self.turns.get(at).iter().flat_map(|turn| &turn.holds) {
            take(&mut self.rooms, *card, hold);
        }
        give_back(&mut self.headroom, budget);
    }

    fn spare_and_go_on(&mut self, at: usize, cost: Cost) {
        let Some(spared) = self.turns.get(at) else {
            return;
        };
        let alike = self.turns.iter().skip(at);
        let number = alike.take_while(|other| spared.outdoes(other)).count();
        let spared = at..at + number.max(1);
        let turns = self.turns.get(spared.clone()).unwrap_or_default();
        for (card, hold) in turns.iter().flat_map(|turn| &turn.holds) {
            take(&mut self.hopeful, *card, hold);
        }
        if self.does(&self.hopeful) {
            self.decide(spared.end, cost);
        }
        let turns = self.turns.get(spared).unwrap_or_default();
        for (card, hold) in turns.iter().flat_map(|turn| &turn.holds) {
            give(&mut self.hopeful, *card, hold);
        }
    }

    /// A lower bound for the cost of the victims that must still be taken.
    fn least_to_come(&self, at: usize) -> Cost {
        let turns = self.turns.get(at..).unwrap_or_default();
        let single = turns.iter().all(|turn| turn.holds.len() == 1);
        let (mut victims, mut amount) = (1, 0_u64);
        let (mut all_victims, mut all_amount) = (0_u64, 0_u64);
        for (place, room) in self.rooms.iter().enumerate() {
            let lack = self.search.lack(room);
            let number = least_number(&lack, turns, place);
            // Each victim's part is rounded down, by less than one millionth each.
            let part = millionths(&Hold::Part(lack), &room.card.capacity);
            let part = part.saturating_sub(u64::try_from(turns.len()).unwrap_or(u64::MAX));
            victims = victims.max(number);
            amount = amount.max(part);
            all_victims = all_victims.saturating_add(number);
            all_amount = all_amount.saturating_add(part);
        }
        if single {
            victims = victims.max(all_victims);
            amount = all_amount;
        }
        let victims = u32::try_from(victims).unwrap_or(u32::MAX);
        let some_over = turns.iter().any(|turn| turn.cost.within_budget == 0);
        Cost {
            rank: turns.iter().filter_map(|turn| turn.cost.rank).min(),
            within_budget: if some_over { 0 } else { victims },
            victims,
            amount,
            oldest: Reverse(i64::MAX),
        }
    }
}

/// A lower bound for the number of victims that make up for a lack on one card.
fn least_number(lack: &Amounts, turns: &[Turn], place: usize) -> u64 {
    if lack.is_zero() {
        return 0;
    }
    let mut largest = Amounts::ZERO;
    for (card, hold) in turns.iter().flat_map(|turn| &turn.holds) {
        match hold {
            Hold::Part(amounts) if *card == place => largest = largest.max_each(amounts),
            // A victim that holds the whole card frees all of it.
            Hold::Whole if *card == place => return 1,
            _ => {}
        }
    }
    let number = |dimension| {
        let (lack, largest) = (lack.get(dimension), largest.get(dimension));
        lack.checked_add(largest.saturating_sub(1))
            .and_then(|sum| sum.checked_div(largest))
            .unwrap_or(0)
    };
    (0..MAX_DIMENSIONS).map(number).max().unwrap_or(0)
}

fn use_up(headroom: &mut [u32], budget: Option<usize>) -> bool {
    let Some(left) = budget.and_then(|budget| headroom.get_mut(budget)) else {
        return true;
    };
    let some = *left > 0;
    *left = left.saturating_sub(1);
    some
}

fn give_back(headroom: &mut [u32], budget: Option<usize>) {
    if let Some(left) = budget.and_then(|budget| headroom.get_mut(budget)) {
        *left += 1;
    }
}
