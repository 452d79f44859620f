//! A placement: which container holds how much on which card.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::amounts::Amounts;
use crate::ids::CardId;
use crate::request::{PodAsk, Role, Want, peak};

/// What is held of one card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// All of it, whatever its size: nobody else may hold a part.
    Whole,
    Part(Amounts),
}

impl Hold {
    /// In amounts, on a card of this capacity.
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

/// For each request of the ask, in its order, its shares.
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

    /// The part that concerns cards of one class.
    #[must_use]
    pub fn of_class(&self, class: &str) -> Self {
        let same = |placed: &&ContainerPlacement| *placed.class == *class;
        Self {
            containers: self.containers.iter().filter(same).cloned().collect(),
        }
    }

    /// Every card that is held, each once, in the order of the containers.
    pub fn cards(&self) -> Vec<&CardId> {
        let mut cards: Vec<&CardId> = Vec::new();
        for share in self.containers.iter().flat_map(|placed| &placed.shares) {
            if !cards.contains(&&share.card) {
                cards.push(&share.card);
            }
        }
        cards
    }

    /// What each card must keep for the pod: the peak of its containers there.
    pub fn charges(&self, ask: &PodAsk) -> BTreeMap<CardId, Hold> {
        self.cards()
            .into_iter()
            .map(|card| (card.clone(), self.charge(ask, card)))
            .collect()
    }

    fn charge(&self, ask: &PodAsk, card: &CardId) -> Hold {
        let mut held: Vec<(Role, Amounts)> = Vec::new();
        for ask in &ask.containers {
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
