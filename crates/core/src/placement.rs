//! A placement: which container holds how much on which card.

use std::collections::BTreeMap;

use crate::amounts::Amounts;
use crate::ids::CardId;
use crate::request::{PodAsk, peak};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    pub card: CardId,
    pub amounts: Amounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPlacement {
    pub container: String,
    pub shares: Vec<Share>,
}

/// For each asking container, in the ask's order, its shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    pub containers: Vec<ContainerPlacement>,
}

impl Placement {
    /// Every container of the ask on one card.
    pub fn on_one_card(ask: &PodAsk, card: &CardId) -> Self {
        let containers = ask
            .containers
            .iter()
            .map(|ask| ContainerPlacement {
                container: ask.container.clone(),
                shares: vec![Share {
                    card: card.clone(),
                    amounts: ask.amounts,
                }],
            })
            .collect();
        Self { containers }
    }

    pub fn container(&self, name: &str) -> Option<&ContainerPlacement> {
        self.containers
            .iter()
            .find(|placed| placed.container == name)
    }

    /// What each card must keep for the pod: the peak of its containers there.
    pub fn charges(&self, ask: &PodAsk) -> BTreeMap<CardId, Amounts> {
        let cards: std::collections::BTreeSet<&CardId> = self
            .containers
            .iter()
            .flat_map(|placed| &placed.shares)
            .map(|share| &share.card)
            .collect();
        cards
            .into_iter()
            .map(|card| {
                let held = ask.containers.iter().filter_map(|ask| {
                    let placed = self.container(&ask.container)?;
                    let share = placed.shares.iter().find(|share| share.card == *card)?;
                    Some((ask.role, share.amounts))
                });
                (card.clone(), peak(held))
            })
            .collect()
    }
}
