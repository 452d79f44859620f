//! The last guard before a container starts: what this agent has let onto each card.
//!
//! The scheduler's ledger decides; this tally only refuses what contradicts it: a record that would
//! take a card past its size, one for a card that is not here, one that was changed after the pod had
//! started. It is pure; [`crate::state`] keeps it in step with the pods of the node.

use std::collections::BTreeMap;

use gpushare_core::ledger::Bound;
use gpushare_core::placement::{Charges, Hold};
use gpushare_core::room::CardRoom;
use gpushare_core::{Amounts, Card, CardId, Classes, Placement, PodUid, gpu};
use thiserror::Error;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    admitted: BTreeMap<PodUid, Admitted>,
}

#[derive(Clone, Debug)]
struct Admitted {
    placement: Placement,
    charges: Charges,
    /// The containers have ended for good; the first record is still remembered.
    ended: bool,
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum GuardRefusal {
    #[error(
        "the pod's allocation record was changed after it was first used; \
         restore it, or delete the pod so that it is placed again"
    )]
    Changed,
    #[error(
        "card {0} of the allocation record is not on this node; delete the pod so that it is placed again"
    )]
    NoSuchCard(CardId),
    #[error(
        "card {index} ({card}) is unhealthy; delete the pod so that it is placed on another card"
    )]
    Sick { index: u32, card: CardId },
    #[error(
        "the allocation record books less of card {index} ({card}) than container {container:?} asks for; the \
         record was not made by the gpushare scheduler, or the card has changed: delete the pod so that it \
         is placed again"
    )]
    Less {
        index: u32,
        card: CardId,
        container: Box<str>,
    },
    #[error(
        "card {index} ({card}) has {free} {unit} of {dimension} free and the allocation record takes {needed}; \
         the record was not made by the gpushare scheduler, or something else uses the card: delete the pod \
         so that it is placed again"
    )]
    Full {
        index: u32,
        card: CardId,
        dimension: String,
        unit: String,
        needed: u64,
        free: u64,
    },
}

impl Tally {
    /// Lets a pod onto its cards, or says why not.
    ///
    /// A pod that was let on before may start further containers, or start them again, on a card that
    /// has become sick meanwhile: its memory is booked there, it cannot move, and many errors pass.
    pub fn admit(
        &mut self,
        bound: &Bound,
        classes: &Classes,
        cards: &[Card],
    ) -> Result<(), GuardRefusal> {
        let charges = charges(bound);
        let again = match self.admitted.get(&bound.pod) {
            Some(first) if first.placement != bound.placement => return Err(GuardRefusal::Changed),
            first => first.is_some(),
        };
        for (id, needed) in &charges {
            let card = cards
                .iter()
                .find(|card| card.id == *id)
                .ok_or_else(|| GuardRefusal::NoSuchCard(id.clone()))?;
            if !again {
                check_shares(bound, card)?;
                self.check_room(classes, card, needed)?;
            }
        }
        if !again {
            self.remember(bound);
        }
        Ok(())
    }

    fn check_room(
        &self,
        classes: &Classes,
        card: &Card,
        needed: &Hold,
    ) -> Result<(), GuardRefusal> {
        if !card.healthy {
            return Err(GuardRefusal::Sick {
                index: card.index,
                card: card.id.clone(),
            });
        }
        let free = self.room(card).free();
        let needed = &needed.on(&card.capacity);
        let class = classes.get(&card.class);
        let shortage = class.map(|class| class.shortage(needed, &free));
        match shortage.unwrap_or_default().first() {
            None => Ok(()),
            Some((dimension, missing)) => {
                let named = class.map(|class| class.named(needed)).unwrap_or_default();
                let needed = named.get(&*dimension.name).copied().unwrap_or(0);
                Err(GuardRefusal::Full {
                    index: card.index,
                    card: card.id.clone(),
                    dimension: dimension.name.to_string(),
                    unit: dimension.unit.to_string(),
                    needed,
                    free: needed.saturating_sub(*missing),
                })
            }
        }
    }

    /// What running pods hold on a card.
    pub fn used(&self, card: &Card) -> Amounts {
        self.room(card).used()
    }

    fn room(&self, card: &Card) -> CardRoom {
        let mut room = CardRoom::new(card.clone());
        let running = self.admitted.values().filter(|admitted| !admitted.ended);
        for hold in running.filter_map(|admitted| admitted.charges.get(&card.id)) {
            room.take(hold);
        }
        room
    }

    /// Takes over what an earlier life of this agent let on; it runs, so it counts.
    pub fn remember(&mut self, bound: &Bound) {
        let admitted = Admitted {
            placement: bound.placement.clone(),
            charges: charges(bound),
            ended: false,
        };
        self.admitted.insert(bound.pod.clone(), admitted);
    }

    /// The pod's containers have ended for good: it holds nothing any more.
    pub fn end(&mut self, pod: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(pod) {
            admitted.ended = true;
        }
    }

    pub fn forget(&mut self, pod: &PodUid) {
        self.admitted.remove(pod);
    }
}

/// A record alone cannot show what a percent of the card is; with the card it can be told.
fn check_shares(bound: &Bound, card: &Card) -> Result<(), GuardRefusal> {
    for placed in bound.placement.of_class(gpu::CLASS).containers {
        let ask = bound.ask.container(gpu::CLASS, &placed.container);
        let needed = ask.map(|ask| ask.want.on(&card.capacity));
        let here = placed.shares.iter().find(|share| share.card == card.id);
        let held = here.map(|share| share.hold.on(&card.capacity));
        if let (Some(needed), Some(held)) = (needed, held)
            && !needed.fits_in(&held)
        {
            return Err(GuardRefusal::Less {
                index: card.index,
                card: card.id.clone(),
                container: placed.container,
            });
        }
    }
    Ok(())
}

/// What the pod holds on the cards that this agent serves.
fn charges(bound: &Bound) -> Charges {
    bound.placement.of_class(gpu::CLASS).charges(&bound.ask)
}

#[cfg(test)]
mod tests;
