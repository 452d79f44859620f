//! The search for cards on one node: whether a pod fits, where, and if not, what stands in the way.
//!
//! A pod with one asking container, which nearly all are, is decided without an allocation. Several
//! containers are assigned one after the other, the hardest first, each preferring cards that the pod
//! uses already and then the tightest, with a bounded number of steps back.

mod refusal;
mod several;

use std::cell::RefCell;
use std::sync::Arc;

use crate::amounts::{Amounts, Classes, DeviceClass};
use crate::ids::CardId;
use crate::placement::{ContainerPlacement, Hold, Placement, Share};
use crate::request::{ContainerAsk, PodAsk, Want};
use crate::room::CardRoom;
use crate::why::{Obstacles, Why};

/// One pod's request, prepared once to be held against many nodes.
#[derive(Debug)]
pub struct Search<'a> {
    ask: &'a PodAsk,
    groups: Vec<Group<'a>>,
}

/// The requests of one class.
#[derive(Debug)]
struct Group<'a> {
    class: &'a DeviceClass,
    asks: Vec<&'a ContainerAsk>,
    /// What the choice says of each model met so far; models are few and matching them is slow.
    models: RefCell<Vec<(Arc<str>, bool)>>,
}

/// Cards of one class, by their place.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) most: usize,
    pub(crate) cards: Vec<usize>,
}

/// Cards of the request's containers, in the order of the group's asks.
type Assignment<'n> = Vec<Vec<&'n CardRoom>>;

const NOTHING: Obstacles = Obstacles {
    room: false,
    health: false,
    choice: false,
};
const EVERYTHING: Obstacles = Obstacles {
    room: true,
    health: true,
    choice: true,
};

impl<'a> Search<'a> {
    /// Requests for classes that are not configured are left out: validation does not make any.
    pub fn new(classes: &'a Classes, ask: &'a PodAsk) -> Self {
        let groups = ask
            .classes()
            .filter_map(|name| {
                Some(Group {
                    class: classes.get(name)?,
                    asks: ask.of_class(name).collect(),
                    models: RefCell::default(),
                })
            })
            .collect();
        Self { ask, groups }
    }

    pub fn ask(&self) -> &'a PodAsk {
        self.ask
    }

    /// Whether the pod asks for cards of this class and would take this one, well or sick, free or not.
    pub fn accepts(&self, room: &CardRoom) -> bool {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| group.class.name == room.card.class);
        group.is_some_and(|group| group.accepts(room))
    }

    pub fn fits(&self, cards: &[CardRoom]) -> bool {
        self.groups.iter().all(|group| group.fits(cards, NOTHING))
    }

    /// Why not, in the fewest obstacles; nothing when it fits.
    pub fn why(&self, cards: &[CardRoom]) -> Option<Why> {
        self.groups.iter().find_map(|group| group.why(cards))
    }

    /// The tightest cards that take the pod.
    pub fn place(&self, cards: &[CardRoom]) -> Result<Placement, Why> {
        let mut placed: Vec<(usize, ContainerPlacement)> = Vec::new();
        for group in &self.groups {
            let assigned = group.assign(cards).ok_or_else(|| group.refusal(cards))?;
            for (ask, cards) in group.asks.iter().zip(assigned) {
                placed.push((self.position(ask), held(ask, &cards)));
            }
        }
        Ok(in_order(placed))
    }

    /// A placement on these cards, which every container shares, if it fits: for a caller that has
    /// chosen the cards of a class by its own lights.
    pub fn place_on(
        &self,
        cards: &[CardRoom],
        class: &str,
        chosen: &[&CardId],
    ) -> Option<Placement> {
        let mut placed: Vec<(usize, ContainerPlacement)> = Vec::new();
        for group in &self.groups {
            let assigned = if *group.class.name == *class {
                let chosen: Vec<CardRoom> = cards
                    .iter()
                    .filter(|room| chosen.contains(&&room.card.id))
                    .cloned()
                    .collect();
                let assigned = group.assign(&chosen)?;
                let ids = |room: &&CardRoom| room.card.id.clone();
                assigned
                    .iter()
                    .map(|cards| cards.iter().map(ids).collect::<Vec<CardId>>())
                    .map(|ids| find(cards, &ids))
                    .collect()
            } else {
                group.assign(cards)?
            };
            for (ask, cards) in group.asks.iter().zip(assigned) {
                placed.push((self.position(ask), held(ask, &cards)));
            }
        }
        Some(in_order(placed))
    }

    /// Whether every class is asked for by one container alone: then each card does or does not for
    /// itself, whatever the others hold.
    pub(crate) fn is_simple(&self) -> bool {
        self.groups.iter().all(|group| group.asks.len() == 1)
    }

    /// For each class asked for, the cards that come into question and how many of them are used at most.
    pub(crate) fn spans(&self, cards: &[CardRoom]) -> Vec<Span> {
        let span = |group: &Group<'a>| {
            let wanted = group.asks.iter().map(|ask| number(ask.cards));
            let considered = group
                .considered(cards, NOTHING)
                .filter(|room| group.serves(room));
            let place = |room: &CardRoom| cards.iter().position(|other| std::ptr::eq(other, room));
            Span {
                most: wanted.fold(0, usize::saturating_add),
                cards: considered.filter_map(place).collect(),
            }
        };
        self.groups.iter().map(span).collect()
    }

    /// Whether the card has all the room that can be needed on it. With several containers of one class
    /// on the same cards that is never known of a single card.
    pub(crate) fn is_served_by(&self, room: &CardRoom) -> bool {
        let same = |group: &&Group<'a>| group.class.name == room.card.class;
        let group = self.groups.iter().find(same);
        group.is_none_or(|group| group.asks.len() == 1 && group.serves(room))
    }

    /// How much room the card lacks for a container that asks alone for a part of it; otherwise nothing.
    pub(crate) fn lack(&self, room: &CardRoom) -> Amounts {
        let same = |group: &&Group<'a>| group.class.name == room.card.class;
        let asks = self
            .groups
            .iter()
            .find(same)
            .map(|group| group.asks.as_slice());
        match asks {
            Some(
                [
                    ContainerAsk {
                        want: Want::Share(part),
                        ..
                    },
                ],
            ) => part.on(&room.card.capacity).saturating_sub(&room.free()),
            _ => Amounts::ZERO,
        }
    }

    fn position(&self, ask: &ContainerAsk) -> usize {
        let same = |other: &ContainerAsk| std::ptr::eq(other, ask);
        self.ask
            .containers
            .iter()
            .position(same)
            .unwrap_or(usize::MAX)
    }
}

fn find<'n>(cards: &'n [CardRoom], ids: &[CardId]) -> Vec<&'n CardRoom> {
    cards
        .iter()
        .filter(|room| ids.contains(&room.card.id))
        .collect()
}

fn in_order(mut placed: Vec<(usize, ContainerPlacement)>) -> Placement {
    placed.sort_by_key(|(position, _)| *position);
    Placement {
        containers: placed.into_iter().map(|(_, placed)| placed).collect(),
    }
}

fn held(ask: &ContainerAsk, cards: &[&CardRoom]) -> ContainerPlacement {
    let mut shares: Vec<(u32, Share)> = cards
        .iter()
        .map(|room| {
            let hold = match &ask.want {
                Want::Whole => Hold::Whole,
                Want::Share(part) => Hold::Part(part.on(&room.card.capacity)),
            };
            let card = room.card.id.clone();
            (room.card.index, Share { card, hold })
        })
        .collect();
    shares.sort_by(|a, b| (a.0, &a.1.card).cmp(&(b.0, &b.1.card)));
    ContainerPlacement {
        container: ask.container.clone(),
        class: ask.class.clone(),
        shares: shares.into_iter().map(|(_, share)| share).collect(),
    }
}

impl Group<'_> {
    /// Whether the cards would do without these obstacles.
    fn fits(&self, cards: &[CardRoom], without: Obstacles) -> bool {
        if let [ask] = self.asks.as_slice() {
            let wanted = number(ask.cards);
            return self
                .considered(cards, without)
                .filter(|room| admits(room, &ask.want, without))
                .take(wanted)
                .count()
                == wanted;
        }
        if without.room {
            let empty: Vec<CardRoom> = cards.iter().map(CardRoom::emptied).collect();
            return several::assign(&self.asks, self.considered(&empty, without)).is_some();
        }
        several::assign(&self.asks, self.considered(cards, without)).is_some()
    }

    fn assign<'n>(&self, cards: &'n [CardRoom]) -> Option<Assignment<'n>> {
        let [ask] = self.asks.as_slice() else {
            return several::assign(&self.asks, self.considered(cards, NOTHING));
        };
        let mut fitting: Vec<&CardRoom> = self
            .considered(cards, NOTHING)
            .filter(|room| room.admits(&ask.want))
            .collect();
        fitting.sort_by_key(|room| several::tightness(room));
        fitting.truncate(number(ask.cards));
        (fitting.len() == number(ask.cards)).then(|| vec![fitting])
    }

    /// The cards of the class that are not ruled out.
    fn considered<'s, 'n: 's>(
        &'s self,
        cards: &'n [CardRoom],
        without: Obstacles,
    ) -> impl Iterator<Item = &'n CardRoom> + 's {
        cards.iter().filter(move |room| {
            // As shared texts: nearly always one and the same, which is seen at a glance.
            room.card.class == self.class.name
                && (without.health || room.card.healthy)
                && (without.choice || self.accepts(room))
        })
    }

    /// Whether a container that asks alone could use the card.
    fn serves(&self, room: &CardRoom) -> bool {
        match self.asks.as_slice() {
            [ask] => room.admits(&ask.want),
            _ => true,
        }
    }

    fn accepts(&self, room: &CardRoom) -> bool {
        let Some(choice) = self.asks.first().map(|ask| &ask.choice) else {
            return true;
        };
        if choice.accepts_all() {
            return true;
        }
        let mut models = self.models.borrow_mut();
        let model = &room.card.model;
        let known = models.iter().find(|(known, _)| known == model);
        let accepted = known.map_or_else(|| choice.accepts_model(model), |(_, accepted)| *accepted);
        if known.is_none() {
            models.push((model.clone(), accepted));
        }
        accepted && choice.accepts_id(&room.card.id)
    }
}

/// Whether a card takes the want, or would if nobody held a part of it.
fn admits(room: &CardRoom, want: &Want, without: Obstacles) -> bool {
    if !without.room {
        return room.admits(want);
    }
    want.on(&room.card.capacity).fits_in(&room.card.capacity)
}

fn number(cards: u32) -> usize {
    usize::try_from(cards).unwrap_or(usize::MAX)
}
