//! A placement: which container holds how much on which card.

use std::sync::Arc;

use crate::amounts::Amounts;
use crate::ids::CardId;
use crate::request::{PodAsk, Role, Want, peak};

/// What is held of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// All of it, whatever its size: no other pod may hold a part.
    Whole,
    Part(Amounts),
}

impl Hold {
    /// The held amounts on a card of this capacity.
    pub fn on(&self, capacity: &Amounts) -> Amounts {
        match self {
            Self::Whole => *capacity,
            Self::Part(amounts) => *amounts,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub card: CardId,
    pub hold: Hold,
}

/// A container's shares of cards of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlacement {
    pub container: Box<str>,
    pub class: Arc<str>,
    pub shares: Vec<Share>,
}

/// The shares for each request of the ask, in the ask's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub containers: Vec<ContainerPlacement>,
}

impl Placement {
    /// Every container of the ask on one card, with the fixed amounts that it asks for.
    pub fn on_one_card(ask: &PodAsk, card: &CardId) -> Self {
        let containers = ask.containers.iter().map(|ask| ContainerPlacement {
            container: ask.container.clone(),
            class: ask.class.clone(),
            shares: vec![Share {
                card: card.clone(),
                hold: match &ask.want {
                    Want::Whole => Hold::Whole,
                    Want::Share(part) => Hold::Part(part.amounts),
                },
            }],
        });
        Self {
            containers: containers.collect(),
        }
    }

    pub fn container(&self, class: &str, name: &str) -> Option<&ContainerPlacement> {
        self.containers
            .iter()
            .find(|placed| *placed.class == *class && *placed.container == *name)
    }

    /// Only the part on cards of one class.
    #[must_use]
    pub fn of_class(&self, class: &str) -> Self {
        let same = |placed: &&ContainerPlacement| *placed.class == *class;
        Self {
            containers: self.containers.iter().filter(same).cloned().collect(),
        }
    }

    /// The held cards, each once, in the order of the containers.
    pub fn cards(&self) -> Vec<&CardId> {
        let mut cards: Vec<&CardId> = Vec::new();
        for share in self.containers.iter().flat_map(|placed| &placed.shares) {
            if !cards.contains(&&share.card) {
                cards.push(&share.card);
            }
        }
        cards
    }

    /// Replaces its own card ids by equal ones of `known`, so that they share memory.
    pub(crate) fn share_ids<'a>(&mut self, known: &(impl Iterator<Item = &'a CardId> + Clone)) {
        let shares = self.containers.iter_mut();
        for share in shares.flat_map(|placed| &mut placed.shares) {
            if let Some(same) = known.clone().find(|id| **id == share.card) {
                share.card = same.clone();
            }
        }
    }

    /// What each card must reserve for the pod: the peak of its containers there.
    pub fn charges(&self, ask: &PodAsk) -> Charges {
        self.cards()
            .into_iter()
            .map(|card| (card.clone(), self.charge(ask, card)))
            .collect()
    }

    fn charge(&self, ask: &PodAsk, card: &CardId) -> Hold {
        let mut held: Vec<(Role, Amounts)> = Vec::new();
        for ask in ask.containers.iter() {
            let placed = self.container(&ask.class, &ask.container);
            let mut shares = placed.into_iter().flat_map(|placed| &placed.shares);
            match shares
                .find(|share| share.card == *card)
                .map(|share| &share.hold)
            {
                Some(Hold::Whole) => return Hold::Whole,
                Some(Hold::Part(amounts)) => held.push((ask.role, *amounts)),
                None => {}
            }
        }
        Hold::Part(peak(held.into_iter()))
    }
}

/// What each card reserves for a pod, in the order of card ids. Every booking has one, and nearly all
/// name a single card: a map would take ten times the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charges(Box<[(CardId, Hold)]>);

impl Charges {
    pub fn get(&self, card: &CardId) -> Option<&Hold> {
        let found = self.0.binary_search_by(|(id, _)| id.cmp(card));
        found
            .ok()
            .and_then(|at| self.0.get(at))
            .map(|(_, hold)| hold)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&CardId, &Hold)> {
        self.into_iter()
    }

    pub fn keys(&self) -> impl Iterator<Item = &CardId> {
        self.0.iter().map(|(id, _)| id)
    }
}

/// If a card is named twice, the last entry wins.
impl FromIterator<(CardId, Hold)> for Charges {
    fn from_iter<I: IntoIterator<Item = (CardId, Hold)>>(charges: I) -> Self {
        let mut charges: Vec<(CardId, Hold)> = charges.into_iter().collect();
        charges.reverse();
        charges.sort_by(|a, b| a.0.cmp(&b.0));
        charges.dedup_by(|later, kept| later.0 == kept.0);
        Self(charges.into())
    }
}

impl<'a> IntoIterator for &'a Charges {
    type Item = (&'a CardId, &'a Hold);
    type IntoIter = std::iter::Map<
        std::slice::Iter<'a, (CardId, Hold)>,
        fn(&'a (CardId, Hold)) -> (&'a CardId, &'a Hold),
    >;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter().map(|(id, hold)| (id, hold))
    }
}

impl IntoIterator for Charges {
    type Item = (CardId, Hold);
    type IntoIter = std::vec::IntoIter<(CardId, Hold)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_are_found_by_card_and_the_last_word_holds() {
        let part = |amount| Hold::Part(Amounts::of(0, amount));
        let named = [("b", part(1)), ("a", Hold::Whole), ("b", part(2))];
        let charges: Charges = named
            .into_iter()
            .map(|(card, hold)| (CardId::new(card), hold))
            .collect();
        assert_eq!(charges.get(&"a".into()), Some(&Hold::Whole));
        assert_eq!(charges.get(&"b".into()), Some(&part(2)));
        assert_eq!(charges.get(&"c".into()), None);
        assert!(charges.keys().map(CardId::as_str).eq(["a", "b"]));
    }
}
