//! Backtracking: containers are put on cards and taken off again until all have their cards.

use std::cmp::Reverse;

use crate::request::ContainerAsk;
use crate::steps::Steps;

use super::Several;
use super::load::{Load, Spot};
use crate::search::{Assignment, Found, number};

/// The state of the search: which containers are on which cards.
pub(super) struct Dive<'s, 'n> {
    several: &'s Several<'s>,
    /// The tightest first.
    loads: Vec<Load<'n>>,
    /// The cards of each request.
    chosen: Vec<Vec<usize>>,
    in_use: usize,
    /// How many cards the pod may use in all.
    most_cards: usize,
    steps: &'s Steps,
    stopped: bool,
}

impl<'s, 'n> Dive<'s, 'n> {
    pub(super) fn new(
        several: &'s Several<'s>,
        mut cards: Vec<Spot<'n>>,
        steps: &'s Steps,
    ) -> Self {
        cards.sort_by(Spot::by_tightness);
        let mut loads: Vec<Load<'n>> = Vec::with_capacity(cards.len());
        for spot in cards {
            let as_free = |other: &&Load<'_>| other.spot.free == spot.free;
            let mut before = loads.iter().rev().take_while(as_free);
            let like = before.find(|other| other.spot.is_like(&spot));
            let kind = like.map_or(loads.len(), |like| like.kind);
            loads.push(Load::new(spot, kind));
        }
        Self {
            several,
            chosen: vec![Vec::new(); several.asks.len()],
            in_use: 0,
            most_cards: loads.len(),
            loads,
            steps,
            stopped: false,
        }
    }

    pub(super) fn rooms(&self) -> Assignment<'n> {
        let rooms = |cards: &Vec<usize>| {
            let found = cards.iter().filter_map(|card| self.loads.get(*card));
            found.map(|load| load.spot.room).collect()
        };
        self.chosen.iter().map(rooms).collect()
    }

    /// The request that is placed at this turn, with its place among the asks.
    fn turn(&self, turn: usize) -> Option<(usize, &'s ContainerAsk)> {
        let place = *self.several.hardest.get(turn)?;
        Some((place, self.several.asks.get(place)?))
    }

    fn put(&mut self, card: usize, place: usize, ask: &ContainerAsk) {
        let (Some(load), Some(chosen)) = (self.loads.get_mut(card), self.chosen.get_mut(place))
        else {
            return;
        };
        self.in_use += usize::from(!load.is_used());
        load.put(place, ask);
        chosen.push(card);
    }

    fn take_back(&mut self, card: usize, place: usize, ask: &ContainerAsk) {
        let (Some(load), Some(chosen)) = (self.loads.get_mut(card), self.chosen.get_mut(place))
        else {
            return;
        };
        load.take_back(place, ask);
        self.in_use -= usize::from(!load.is_used());
        chosen.pop();
    }

    pub(super) fn clear(&mut self) {
        for load in &mut self.loads {
            *load = Load::new(load.spot, load.kind);
        }
        self.chosen.iter_mut().for_each(Vec::clear);
        self.in_use = 0;
    }

    /// Puts every container on the cards with the most room left, without backtracking.
    pub(super) fn spread(&mut self) -> bool {
        (0..self.several.asks.len()).all(|turn| {
            let Some((place, ask)) = self.turn(turn) else {
                return false;
            };
            let left = |card: &usize| {
                let load = self.loads.get(*card);
                load.map(|load| load.spot.free.saturating_sub(&load.lasting))
            };
            let mut order: Vec<usize> = (0..self.loads.len()).collect();
            order.sort_by_cached_key(|card| Reverse(left(card)));
            let mut missing = number(ask.cards);
            for card in order {
                let Some(load) = self.loads.get(card).filter(|_| missing > 0) else {
                    break;
                };
                if !self.steps.spend_all(load.steps(ask)) {
                    return false;
                }
                if load.admits(place, ask) {
                    self.put(card, place, ask);
                    missing -= 1;
                }
            }
            missing == 0
        })
    }

    /// Tries every assignment on at most this many cards, until one fits.
    pub(super) fn search(&mut self, most_cards: usize) -> Found<'n> {
        self.most_cards = most_cards;
        if self.assign_from(0) {
            Found::Here(self.rooms())
        } else if self.stopped {
            Found::Unknown
        } else {
            Found::Nowhere
        }
    }

    fn assign_from(&mut self, turn: usize) -> bool {
        let Some((place, ask)) = self.turn(turn) else {
            return true;
        };
        // Cards that the pod already uses come first, so that the others stay whole.
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by_key(|card| !self.loads.get(*card).is_some_and(Load::is_used));
        self.choose(turn, place, ask, &order, number(ask.cards))
    }

    /// Chooses `missing` more cards for one request from `order`, then goes on to the next request.
    fn choose(
        &mut self,
        turn: usize,
        place: usize,
        ask: &ContainerAsk,
        order: &[usize],
        missing: usize,
    ) -> bool {
        if missing == 0 {
            return self.assign_from(turn + 1);
        }
        let in_use = self.in_use;
        let mut refused: Vec<usize> = Vec::new();
        for (at, card) in order.iter().enumerate() {
            if order.len() - at < missing || self.stopped {
                return false;
            }
            let Some(load) = self.loads.get(*card) else {
                continue;
            };
            if !self.steps.spend_all(load.steps(ask)) {
                self.stopped = true;
                return false;
            }
            if !load.is_used() && in_use >= self.most_cards {
                continue;
            }
            // What failed with one card also fails with an equal card.
            let mut failed = refused.iter().filter_map(|other| self.loads.get(*other));
            if failed.any(|other| other.equals(load)) || !load.admits(place, ask) {
                continue;
            }
            self.put(*card, place, ask);
            let rest = order.get(at + 1..).unwrap_or_default();
            if self.choose(turn, place, ask, rest, missing - 1) {
                return true;
            }
            self.take_back(*card, place, ask);
            refused.push(*card);
        }
        false
    }
}
