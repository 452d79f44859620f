//! The last guard before a container starts: which pods this agent has admitted to each card.
//!
//! The extender's books decide; this tally only refuses what contradicts them: a record that would
//! overfill a card, one for a card that is not here, one that was changed after the pod had
//! started. A pod holds its cards until the kernel shows that its processes have ended, whatever the API
//! server shows. It is pure; [`crate::state`] keeps it in sync with the pods of the node.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use gpushare_core::ledger::BoundPod;
use gpushare_core::placement::{Charges, Hold};
use gpushare_core::room::CardRoom;
use gpushare_core::{Amounts, Card, CardId, Classes, HeldPod, Placement, PodUid, gpu};
use thiserror::Error;

#[derive(Clone, Debug, Default)]
pub struct Tally {
    admitted: BTreeMap<PodUid, Admitted>,
    /// How many starts were admitted so far.
    starts: u64,
}

/// The pods that are leaving, each with the number of its last start when the check for its processes began.
pub type LeavingPods = BTreeMap<PodUid, u64>;

#[derive(Clone, Debug)]
struct Admitted {
    placement: Placement,
    charges: Charges,
    stage: Stage,
    /// The number of the pod's last start.
    last_start: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// The API server shows the pod, and not as ended.
    Present,
    /// The API server shows no pod, or one that has ended. Its processes may still run.
    Leaving {
        /// `namespace/name`, for people.
        name: Box<str>,
        /// Whether its processes were seen to run.
        alive: bool,
    },
    /// All processes have ended; the record with which it was first admitted is still remembered.
    Ended,
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
        "{short} and the allocation record takes {}; \
         the record was not made by the gpushare scheduler, or something else uses the card: delete the pod \
         so that it is placed again",
        .short.needed
    )]
    Full { short: Shortage },
    #[error(
        "{short} and the pod takes {}: containers of {pods} \
         still run although their pods are over, and hold the rest; this pod starts by itself when they have ended",
        .short.needed
    )]
    StillHeld { short: Shortage, pods: String },
}

/// What a card has too little of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    index: u32,
    card: CardId,
    dimension: Arc<str>,
    unit: Arc<str>,
    needed: u64,
    free: u64,
}

impl fmt::Display for Shortage {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, card, .. } = self;
        let (free, unit, dimension) = (self.free, &self.unit, &self.dimension);
        write!(
            text,
            "card {index} ({card}) has {free} {unit} of {dimension} free"
        )
    }
}

impl Tally {
    /// Admits a pod to its cards, or returns why not.
    ///
    /// A pod that was admitted before may start more containers, or restart them, on a card that has
    /// become sick meanwhile: its memory is booked there, it cannot move, and many errors are transient.
    pub fn admit(
        &mut self,
        bound: &BoundPod,
        classes: &Classes,
        cards: &[Card],
    ) -> Result<(), GuardRefusal> {
        let charges = charges(bound);
        let again = match self.admitted.get(&bound.pod) {
            Some(first) if first.placement != bound.placement => return Err(GuardRefusal::Changed),
            first => first.is_some_and(|first| first.stage != Stage::Ended),
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
        self.starts += 1;
        if let Some(admitted) = self.admitted.get_mut(&bound.pod) {
            admitted.last_start = self.starts;
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
        let free = self.room(card, true).free();
        let needed = &needed.on(&card.capacity);
        let class = classes.get(&card.class);
        let shortage = class.map(|class| class.shortage(needed, &free));
        match shortage.unwrap_or_default().first() {
            None => Ok(()),
            Some((dimension, missing)) => {
                let named = class.map(|class| class.named(needed)).unwrap_or_default();
                let amount = named.get(&*dimension.name).copied().unwrap_or(0);
                let short = Shortage {
                    index: card.index,
                    card: card.id.clone(),
                    dimension: dimension.name.clone(),
                    unit: dimension.unit.clone(),
                    needed: amount,
                    free: amount.saturating_sub(*missing),
                };
                let pods = self.leaving_from(card);
                // Without the pods that are leaving there would be room.
                if !pods.is_empty() && needed.fits_in(&self.room(card, false).free()) {
                    let pods = pods.join(" and ");
                    return Err(GuardRefusal::StillHeld { short, pods });
                }
                Err(GuardRefusal::Full { short })
            }
        }
    }

    /// What pods hold on a card.
    pub fn used(&self, card: &Card) -> Amounts {
        self.room(card, true).used()
    }

    fn room(&self, card: &Card, with_leaving: bool) -> CardRoom {
        let mut room = CardRoom::new(card.clone());
        let holding = self
            .admitted
            .values()
            .filter(|admitted| match admitted.stage {
                Stage::Present => true,
                Stage::Leaving { .. } => with_leaving,
                Stage::Ended => false,
            });
        for hold in holding.filter_map(|admitted| admitted.charges.get(&card.id)) {
            room.take(hold);
        }
        room
    }

    /// The names of pods that are leaving and hold a part of this card.
    fn leaving_from(&self, card: &Card) -> Vec<String> {
        let holders = self.admitted.values();
        let holders = holders.filter(|admitted| admitted.charges.get(&card.id).is_some());
        holders
            .filter_map(|admitted| match &admitted.stage {
                Stage::Leaving { name, .. } => Some(format!("pod {name}")),
                _ => None,
            })
            .collect()
    }

    /// Counts a pod without checks, as for one that an earlier run of this agent admitted: it runs, so it counts.
    pub fn remember(&mut self, bound: &BoundPod) {
        let admitted = Admitted {
            placement: bound.placement.clone(),
            charges: charges(bound),
            stage: Stage::Present,
            last_start: self.starts,
        };
        self.admitted.insert(bound.pod.clone(), admitted);
    }

    /// Like [`Self::remember`], for a pod that the API server does not show any more.
    pub fn remember_gone(&mut self, pod: &PodUid, name: &str, charges: Charges) {
        let admitted = Admitted {
            placement: Placement {
                containers: Vec::new(),
            },
            charges,
            stage: Stage::leaving(name),
            last_start: self.starts,
        };
        self.admitted.insert(pod.clone(), admitted);
    }

    /// The API server no longer shows the pod, or shows that it has ended. It holds its cards until [`Self::end`].
    pub fn leave(&mut self, pod: &PodUid, name: &str) {
        if let Some(admitted) = self.admitted.get_mut(pod)
            && admitted.stage == Stage::Present
        {
            admitted.stage = Stage::leaving(name);
        }
    }

    /// The API server shows the pod again as not ended.
    pub fn stay(&mut self, pod: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(pod)
            && matches!(admitted.stage, Stage::Leaving { .. })
        {
            admitted.stage = Stage::Present;
        }
    }

    /// The pods whose processes must be looked for.
    pub fn leaving(&self) -> LeavingPods {
        let admitted = self.admitted.iter();
        let leaving = admitted.filter(|(_, admitted)| admitted.is_leaving());
        leaving
            .map(|(pod, admitted)| (pod.clone(), admitted.last_start))
            .collect()
    }

    /// Whether the pod holds its cards.
    pub fn holds(&self, pod: &PodUid) -> bool {
        let admitted = self.admitted.get(pod);
        admitted.is_some_and(|admitted| admitted.stage != Stage::Ended)
    }

    /// Processes of a pod that is leaving were seen.
    pub fn note_alive(&mut self, pod: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(pod)
            && let Stage::Leaving { alive, .. } = &mut admitted.stage
        {
            *alive = true;
        }
    }

    /// What the pods that are leaving hold; `None` until each of them was checked for processes.
    pub fn held(&self) -> Option<Vec<HeldPod>> {
        let mut held = Vec::new();
        for (pod, admitted) in &self.admitted {
            match &admitted.stage {
                Stage::Leaving { alive: false, .. } => return None,
                Stage::Leaving { name, .. } => held.push(HeldPod {
                    pod: pod.clone(),
                    name: name.clone(),
                    charges: admitted.charges.clone(),
                }),
                Stage::Present | Stage::Ended => {}
            }
        }
        Some(held)
    }

    /// All processes of the pod have ended: it holds nothing any more.
    pub fn end(&mut self, pod: &PodUid) {
        if let Some(admitted) = self.admitted.get_mut(pod) {
            admitted.stage = Stage::Ended;
        }
    }

    pub fn forget(&mut self, pod: &PodUid) {
        self.admitted.remove(pod);
    }
}

impl Admitted {
    fn is_leaving(&self) -> bool {
        matches!(self.stage, Stage::Leaving { .. })
    }
}

impl Stage {
    fn leaving(name: &str) -> Self {
        Self::Leaving {
            name: name.into(),
            alive: false,
        }
    }
}

/// Checks shares given in percent of a card: what they amount to is known only with the card.
fn check_shares(bound: &BoundPod, card: &Card) -> Result<(), GuardRefusal> {
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
fn charges(bound: &BoundPod) -> Charges {
    bound.placement.of_class(gpu::CLASS).charges(&bound.ask)
}

#[cfg(test)]
mod tests;
