//! The search for cards on one node: whether a pod fits and where, or what stands in the way.
//!
//! Nearly all pods have one container that asks for cards; they are decided without an allocation. Several containers
//! are assigned one after the other, the hardest first, each preferring cards that the pod already uses and then the
//! tightest, within a bounded number of [steps](crate::steps). If the steps do not suffice, the answer says so.

mod refusal;
mod several;

use std::cell::RefCell;
use std::sync::Arc;

use crate::amounts::{Amounts, Classes, DeviceClass};
use crate::ids::CardId;
use crate::placement::{ContainerPlacement, Hold, Placement, Share};
use crate::request::{ContainerAsk, PodAsk, Want};
use crate::room::CardRoom;
use crate::steps::Steps;
use crate::why::{Obstacles, Why};
use several::{Several, Spot};

/// One pod's request, prepared once to be checked against many nodes.
#[derive(Debug)]
pub struct Search<'a> {
    ask: &'a PodAsk,
    groups: Vec<Group<'a>>,
    steps: &'a Steps,
}

/// The requests of one class.
#[derive(Debug)]
struct Group<'a> {
    class: &'a DeviceClass,
    asks: Vec<&'a ContainerAsk>,
    /// The same requests, if there is more than one.
    several: Option<Several<'a>>,
    /// Whether the choice accepts each model met so far; models are few and matching them is slow.
    models: RefCell<Vec<(Arc<str>, bool)>>,
}

/// The cards of one class that a pod could use, by their place, and how many it uses at most.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) most: usize,
    pub(crate) cards: Vec<usize>,
}

/// Cards of the request's containers, in the order of the group's asks.
type Assignment<'n> = Vec<Vec<&'n CardRoom>>;

/// The result of a search.
enum Found<'n> {
    Here(Assignment<'n>),
    /// It is certain that there is no assignment.
    Nowhere,
    /// The steps were used up before the answer was known.
    Unknown,
}

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
    /// Ignores requests for classes that are not configured: validation never creates any.
    pub fn new(classes: &'a Classes, ask: &'a PodAsk, steps: &'a Steps) -> Self {
        let groups = ask
            .classes()
            .filter_map(|name| {
                let asks: Vec<&ContainerAsk> = ask.of_class(name).collect();
                Some(Group {
                    class: classes.get(name)?,
                    several: (asks.len() > 1).then(|| Several::new(asks.clone())),
                    asks,
                    models: RefCell::default(),
                })
            })
            .collect();
        Self { ask, groups, steps }
    }

    pub fn ask(&self) -> &'a PodAsk {
        self.ask
    }

    /// Whether the pod asks for cards of this class and accepts this one, whether or not it is healthy or free.
    pub fn accepts(&self, room: &CardRoom) -> bool {
        let mut groups = self.groups.iter();
        let group = groups.find(|group| group.class.name == room.card.class);
        group.is_some_and(|group| group.accepts(room))
    }

    /// Whether it is certain that the pod fits on the cards.
    pub fn fits(&self, cards: &[CardRoom]) -> bool {
        self.decided(cards) == Some(true)
    }

    /// Whether the pod fits on the cards; `None` if the steps were used up before the answer was known.
    pub(crate) fn decided(&self, cards: &[CardRoom]) -> Option<bool> {
        let steps = self.steps.portion(Steps::PER_NODE);
        let mut groups = self.groups.iter();
        let obstacle = groups.find_map(|group| match group.found(cards, &steps) {
            Found::Here(_) => None,
            Found::Nowhere => Some(Some(false)),
            Found::Unknown => Some(None),
        });
        self.steps.settle(&steps);
        obstacle.unwrap_or(Some(true))
    }

    /// Runs the work but, if possible, keeps enough steps to place the pod afterwards.
    pub(crate) fn before_placing<T>(&self, work: impl FnOnce() -> T) -> T {
        if self.is_simple() {
            return work();
        }
        let left = self.steps.left();
        let kept = (2 * Steps::PER_NODE).min(left / 2);
        self.steps.within(left - kept, work)
    }

    /// Why the pod does not fit, in the fewest obstacles, or that this is unknown; `None` if it fits.
    pub fn why(&self, cards: &[CardRoom]) -> Option<Why> {
        let steps = self.steps.portion(Steps::PER_NODE);
        let mut groups = self.groups.iter();
        let why = groups.find_map(|group| match group.found(cards, &steps) {
            Found::Here(_) => None,
            Found::Nowhere => Some((group, group.refusal(cards, &steps))),
            Found::Unknown => Some((group, group.lacks_cards(cards))),
        });
        self.steps.settle(&steps);
        let (group, why) = why?;
        Some(why.unwrap_or_else(|| self.undecided(group)))
    }

    /// The tightest cards that take the pod.
    pub fn place(&self, cards: &[CardRoom]) -> Result<Placement, Why> {
        let mut placed: Vec<(usize, ContainerPlacement)> = Vec::new();
        for group in &self.groups {
            let assigned = match group.assign(cards, self.steps) {
                Found::Here(assigned) => assigned,
                Found::Unknown => return Err(self.undecided(group)),
                Found::Nowhere => {
                    let steps = self.steps.portion(Steps::PER_NODE);
                    let why = group.refusal(cards, &steps);
                    self.steps.settle(&steps);
                    return Err(why.unwrap_or_else(|| self.undecided(group)));
                }
            };
            for (ask, cards) in group.asks.iter().zip(assigned) {
                placed.push((self.position(ask), held(ask, &cards)));
            }
        }
        Ok(in_order(placed))
    }

    /// The reason when the steps were used up: those of this node, or those of the whole request.
    fn undecided(&self, group: &Group<'_>) -> Why {
        let class = group.class.name.clone();
        let containers = u32::try_from(group.asks.len()).unwrap_or(u32::MAX);
        if self.steps.are_used_up() {
            return Why::NotReached {
                class,
                containers,
                steps: self.steps.given(),
            };
        }
        Why::TooComplex {
            class,
            containers,
            steps: Steps::PER_NODE,
        }
    }

    /// A placement with every container on these cards, if it fits: for a caller that has chosen the cards of a class
    /// by its own criteria.
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
                let Found::Here(assigned) = group.assign(&chosen, self.steps) else {
                    return None;
                };
                let ids = |room: &&CardRoom| room.card.id.clone();
                assigned
                    .iter()
                    .map(|cards| cards.iter().map(ids).collect::<Vec<CardId>>())
                    .map(|ids| find(cards, &ids))
                    .collect()
            } else {
                let Found::Here(assigned) = group.assign(cards, self.steps) else {
                    return None;
                };
                assigned
            };
            for (ask, cards) in group.asks.iter().zip(assigned) {
                placed.push((self.position(ask), held(ask, &cards)));
            }
        }
        Some(in_order(placed))
    }

    /// Whether each class is requested by only one container: then each card can be checked by itself, whatever the
    /// other cards hold.
    pub(crate) fn is_simple(&self) -> bool {
        self.groups.iter().all(|group| group.asks.len() == 1)
    }

    /// For each requested class, the cards that the pod could use and how many of them it uses at most.
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

    /// Whether the card has all the room that the pod can need on it. If several containers ask for the class, a single
    /// card cannot tell.
    pub(crate) fn is_served_by(&self, room: &CardRoom) -> bool {
        let same = |group: &&Group<'a>| group.class.name == room.card.class;
        let group = self.groups.iter().find(same);
        group.is_none_or(|group| group.asks.len() == 1 && group.serves(room))
    }

    /// How much room the card lacks if only one container asks for the class, and for a part of a card; otherwise zero.
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
    /// Any assignment. For a single container, the result only says whether there is one, and its cards are left out.
    fn found<'n>(&self, cards: &'n [CardRoom], steps: &Steps) -> Found<'n> {
        if self.several.is_some() {
            return self.found_without(cards, NOTHING, steps);
        }
        steps.count(cards.len());
        let fits = self.asks.iter().all(|ask| {
            let wanted = number(ask.cards);
            let considered = self.considered(cards, NOTHING);
            let admitting = considered.filter(|room| room.admits(&ask.want));
            admitting.take(wanted).count() == wanted
        });
        if fits {
            Found::Here(Vec::new())
        } else {
            Found::Nowhere
        }
    }

    /// Any assignment of several containers if these obstacles did not exist.
    fn found_without<'n>(
        &self,
        cards: &'n [CardRoom],
        without: Obstacles,
        steps: &Steps,
    ) -> Found<'n> {
        match &self.several {
            Some(several) if !steps.are_used_up() => {
                several.anywhere(self.spots(cards, without).collect(), steps)
            }
            _ => Found::Unknown,
        }
    }

    fn assign<'n>(&self, cards: &'n [CardRoom], steps: &Steps) -> Found<'n> {
        if let Some(several) = &self.several {
            let spots: Vec<Spot<'_>> = self.spots(cards, NOTHING).collect();
            let portion = steps.portion(Steps::PER_NODE);
            let found = several.on_fewest(spots.clone(), &portion);
            steps.settle(&portion);
            if !matches!(found, Found::Unknown) {
                return found;
            }
            // This repeats the filter's search with as many steps, so it finds what the filter found.
            let portion = steps.portion(Steps::PER_NODE);
            let found = several.anywhere(spots, &portion);
            steps.settle(&portion);
            return found;
        }
        steps.count(cards.len());
        let mut assigned = Vec::new();
        for ask in &self.asks {
            let mut fitting: Vec<Spot<'_>> = self
                .spots(cards, NOTHING)
                .filter(|spot| spot.room.admits(&ask.want))
                .collect();
            fitting.sort_by(Spot::by_tightness);
            fitting.truncate(number(ask.cards));
            if fitting.len() < number(ask.cards) {
                return Found::Nowhere;
            }
            assigned.push(fitting.into_iter().map(|spot| spot.room).collect());
        }
        Found::Here(assigned)
    }

    /// The cards of the class that are healthy and accepted, or would be without these obstacles.
    fn considered<'s, 'n: 's>(
        &'s self,
        cards: &'n [CardRoom],
        without: Obstacles,
    ) -> impl Iterator<Item = &'n CardRoom> + 's {
        cards.iter().filter(move |room| {
            // Comparing `Arc`s is cheap here: both are nearly always the same allocation.
            room.card.class == self.class.name
                && (without.health || room.card.healthy)
                && (without.choice || self.accepts(room))
        })
    }

    fn spots<'s, 'n: 's>(
        &'s self,
        cards: &'n [CardRoom],
        without: Obstacles,
    ) -> impl Iterator<Item = Spot<'n>> + 's {
        let considered = self.considered(cards, without);
        considered.map(move |room| Spot::new(room, without.room))
    }

    /// Whether the only asking container could use the card; true if there are several.
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

fn number(cards: u32) -> usize {
    usize::try_from(cards).unwrap_or(usize::MAX)
}
