//! Several containers on the cards of one node: on as few as possible.

use crate::amounts::Amounts;
use crate::ids::CardId;
use crate::request::{ContainerAsk, Part, Role, Want, peak};
use crate::room::CardRoom;

use super::{Assignment, number};

/// Choices tried before giving up: far more than real pods need, few enough that no request can hold up
/// the scheduler. A pod that fits only by an assignment beyond it counts as not fitting.
const MAX_STEPS: u32 = 20_000;

/// A card and what the pod's containers would hold there, by the place of their request.
#[derive(Clone, Debug)]
struct Load<'n> {
    room: &'n CardRoom,
    /// By place of the request; nothing where it does not use the card.
    held: Vec<Option<(Role, Amounts)>>,
    whole: bool,
}

impl Load<'_> {
    /// Whether the request may use the card beside those that do already.
    fn admits(&mut self, place: usize, ask: &ContainerAsk) -> bool {
        let amounts = ask.want.on(&self.room.card.capacity);
        let whole = self.whole || ask.want == Want::Whole;
        if whole && !self.room.is_untouched() {
            return false;
        }
        let Some(slot) = self.held.get_mut(place) else {
            return false;
        };
        *slot = Some((ask.role, amounts));
        let fits = peak(self.held.iter().copied().flatten()).fits_in(&self.room.free());
        if let Some(slot) = self.held.get_mut(place) {
            *slot = None;
        }
        fits
    }

    fn put(&mut self, place: usize, ask: &ContainerAsk) {
        if let Some(slot) = self.held.get_mut(place) {
            *slot = Some((ask.role, ask.want.on(&self.room.card.capacity)));
        }
        self.whole |= ask.want == Want::Whole;
    }

    /// Whether one is as good as the other for everything still to come.
    fn equals(&self, other: &Self) -> bool {
        self.held == other.held
            && self.whole == other.whole
            && self.room.card.capacity == other.room.card.capacity
            && self.room.free() == other.room.free()
            && self.room.is_untouched() == other.room.is_untouched()
    }

    fn is_used(&self) -> bool {
        self.held.iter().any(Option::is_some)
    }
}

/// The order in which cards are tried: least free first, then by index, never by chance.
pub(super) fn tightness(room: &CardRoom) -> (Amounts, u32, CardId) {
    (room.free(), room.card.index, room.card.id.clone())
}

struct Search<'a, 'n> {
    /// With their place in the group, the hardest first.
    asks: Vec<(usize, &'a ContainerAsk)>,
    loads: Vec<Load<'n>>,
    chosen: Vec<Vec<usize>>,
    /// How many cards the pod may use in all.
    most_cards: usize,
    steps: u32,
}

pub(super) fn assign<'n>(
    asks: &[&ContainerAsk],
    cards: impl Iterator<Item = &'n CardRoom>,
) -> Option<Assignment<'n>> {
    let mut loads: Vec<Load<'n>> = cards
        .map(|room| Load {
            room,
            held: vec![None; asks.len()],
            whole: false,
        })
        .collect();
    loads.sort_by_key(|load| tightness(load.room));
    let mut hardest: Vec<(usize, &ContainerAsk)> = asks.iter().copied().enumerate().collect();
    hardest.sort_by_key(|(_, ask)| {
        let size = match ask.want {
            Want::Whole => (true, Part::default()),
            Want::Share(part) => (false, part),
        };
        std::cmp::Reverse((size.0, ask.cards, size.1))
    });
    let fewest = asks.iter().map(|ask| number(ask.cards)).max()?;
    // On as few cards as possible: the others stay whole.
    (fewest..=loads.len()).find_map(|most_cards| {
        let mut search = Search {
            chosen: vec![Vec::new(); asks.len()],
            asks: hardest.clone(),
            loads: loads.clone(),
            most_cards,
            steps: 0,
        };
        search.assign_from(0).then(|| search.rooms())
    })
}

impl<'n> Search<'_, 'n> {
    fn rooms(&self) -> Assignment<'n> {
        let rooms = |cards: &Vec<usize>| {
            let found = cards.iter().filter_map(|card| self.loads.get(*card));
            found.map(|load| load.room).collect()
        };
        self.chosen.iter().map(rooms).collect()
    }

    fn assign_from(&mut self, turn: usize) -> bool {
        let Some((place, ask)) = self.asks.get(turn).copied() else {
            return true;
        };
        // Cards that the pod uses already come first: they leave the others whole.
        let mut order: Vec<usize> = (0..self.loads.len()).collect();
        order.sort_by_key(|card| !self.loads.get(*card).is_some_and(Load::is_used));
        self.choose(turn, place, ask, &order, number(ask.cards))
    }

    /// Chooses `missing` more cards for one request out of `order`, then goes on to the next request.
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
        let in_use = self.loads.iter().filter(|load| load.is_used()).count();
        let mut refused: Vec<Load<'_>> = Vec::new();
        for (at, card) in order.iter().enumerate() {
            if order.len() - at < missing || self.steps >= MAX_STEPS {
                return false;
            }
            let Some(load) = self.loads.get_mut(*card) else {
                continue;
            };
            if !load.is_used() && in_use >= self.most_cards {
                continue;
            }
            // What failed with one card fails with its equal.
            if refused.iter().any(|other| other.equals(load)) || !load.admits(place, ask) {
                continue;
            }
            self.steps += 1;
            let before = load.clone();
            load.put(place, ask);
            if let Some(chosen) = self.chosen.get_mut(place) {
                chosen.push(*card);
            }
            let rest = order.get(at + 1..).unwrap_or_default();
            if self.choose(turn, place, ask, rest, missing - 1) {
                return true;
            }
            if let Some(chosen) = self.chosen.get_mut(place) {
                chosen.pop();
            }
            if let Some(load) = self.loads.get_mut(*card) {
                *load = before.clone();
            }
            refused.push(before);
        }
        false
    }
}
