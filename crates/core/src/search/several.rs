//! Several containers on the cards of one node.
//!
//! Containers are placed one after the other, the hardest first. Cheap checks first rule out what cannot fit. Then the
//! containers are spread over the cards, which mostly succeeds if anything does. Only then every assignment is tried,
//! until one fits or the steps are used up.

mod dive;
mod load;

use std::cmp::Reverse;

use crate::amounts::{Amounts, MAX_DIMENSIONS};
use crate::request::{ContainerAsk, MOST_CARDS_IN_ALL, Part, Role, Want};
use crate::steps::Steps;

use super::{Found, number};
use dive::Dive;
pub(super) use load::Spot;

/// The requests of several containers for cards of one class, prepared once for many nodes.
#[derive(Debug)]
pub(super) struct Several<'a> {
    asks: Vec<&'a ContainerAsk>,
    /// Places of the asks, the hardest first.
    hardest: Vec<usize>,
    /// The least number of cards that can suffice.
    fewest: usize,
    /// How many cards are requested in all, each container's counted separately.
    in_all: usize,
    /// The least that all cards together must provide for as long as the pod runs.
    lasting: Amounts,
}

impl<'a> Several<'a> {
    pub(super) fn new(asks: Vec<&'a ContainerAsk>) -> Self {
        let mut hardest: Vec<(usize, &ContainerAsk)> = asks.iter().copied().enumerate().collect();
        hardest.sort_by_key(|(_, ask)| {
            let size = match ask.want {
                Want::Whole => (true, Part::default()),
                Want::Share(part) => (false, part),
            };
            Reverse((size.0, ask.cards, size.1))
        });
        let mut lasting = Amounts::ZERO;
        for ask in asks.iter().filter(|ask| ask.role != Role::Init) {
            if let Want::Share(part) = ask.want {
                for _ in 0..ask.cards {
                    lasting = lasting.saturating_add(&part.amounts);
                }
            }
        }
        let wanted = || asks.iter().map(|ask| number(ask.cards));
        Self {
            hardest: hardest.into_iter().map(|(place, _)| place).collect(),
            fewest: wanted().max().unwrap_or(0),
            in_all: wanted().fold(0, usize::saturating_add),
            lasting,
            asks,
        }
    }

    /// Any assignment.
    pub(super) fn anywhere<'n>(&self, cards: Vec<Spot<'n>>, steps: &Steps) -> Found<'n> {
        match self.outlook(&cards, steps) {
            Outlook::Hopeless => return Found::Nowhere,
            Outlook::Unknown => return Found::Unknown,
            Outlook::Possible => {}
        }
        let all = cards.len();
        let mut dive = Dive::new(self, cards, steps);
        if dive.spread() {
            return Found::Here(dive.rooms());
        }
        dive.clear();
        dive.search(all)
    }

    /// An assignment on as few cards as possible, so that the other cards stay whole.
    pub(super) fn on_fewest<'n>(&self, cards: Vec<Spot<'n>>, steps: &Steps) -> Found<'n> {
        match self.outlook(&cards, steps) {
            Outlook::Hopeless => return Found::Nowhere,
            Outlook::Unknown => return Found::Unknown,
            Outlook::Possible => {}
        }
        let (fewest, all) = (self.fewest.max(self.enough(&cards)), cards.len());
        let mut dive = Dive::new(self, cards, steps);
        for most_cards in fewest..=all {
            match dive.search(most_cards) {
                Found::Nowhere => {}
                found => return found,
            }
        }
        Found::Nowhere
    }

    /// What is known without trying: each container must fit alone, and all together must fit into the total free room.
    fn outlook(&self, cards: &[Spot<'_>], steps: &Steps) -> Outlook {
        if cards.len() < self.fewest {
            return Outlook::Hopeless;
        }
        // This limits the depth of the search; validation refuses pods that ask for more.
        if self.in_all > MOST_CARDS_IN_ALL || !steps.spend_all(cards.len()) {
            return Outlook::Unknown;
        }
        let free = cards
            .iter()
            .fold(Amounts::ZERO, |sum, spot| sum.saturating_add(&spot.free));
        if !self.lasting.fits_in(&free) {
            return Outlook::Hopeless;
        }
        for ask in &self.asks {
            let mut missing = number(ask.cards);
            let mut looks = 0;
            for spot in cards {
                if missing == 0 {
                    break;
                }
                looks += 1;
                missing -= usize::from(spot.admits(&ask.want));
            }
            if !steps.spend_all(looks) {
                return Outlook::Unknown;
            }
            if missing > 0 {
                return Outlook::Hopeless;
            }
        }
        Outlook::Possible
    }

    /// With fewer cards than this, not even the freest cards have enough room in total.
    fn enough(&self, cards: &[Spot<'_>]) -> usize {
        let of_dimension = |dimension| {
            let needed = self.lasting.get(dimension);
            let each = cards.iter().map(|spot| spot.free.get(dimension));
            let mut free: Vec<u64> = each.collect();
            free.sort_unstable_by_key(|free| Reverse(*free));
            let mut sum = 0_u64;
            let too_little = free.iter().take_while(|free| {
                let before = sum;
                sum = sum.saturating_add(**free);
                before < needed
            });
            too_little.count()
        };
        (0..MAX_DIMENSIONS).map(of_dimension).max().unwrap_or(0)
    }
}

/// What is known before anything is tried.
enum Outlook {
    Possible,
    Hopeless,
    Unknown,
}
