//! The room on one card: what is held of it and what is free.

use crate::amounts::Amounts;
use crate::card::Card;
use crate::placement::Hold;
use crate::request::Want;

#[derive(Clone, Debug)]
pub struct CardRoom {
    pub card: Card,
    parts: Amounts,
    /// Pods that hold the whole card: one, or more only where records contradict each other.
    wholes: u32,
}

impl CardRoom {
    pub fn new(card: Card) -> Self {
        Self {
            card,
            parts: Amounts::ZERO,
            wholes: 0,
        }
    }

    /// What is held, in amounts.
    pub fn used(&self) -> Amounts {
        if self.wholes > 0 {
            self.card.capacity.max_each(&self.parts)
        } else {
            self.parts
        }
    }

    pub fn free(&self) -> Amounts {
        if self.wholes > 0 {
            return Amounts::ZERO;
        }
        self.card.capacity.saturating_sub(&self.parts)
    }

    /// Nobody holds a part of it.
    pub fn is_untouched(&self) -> bool {
        self.wholes == 0 && self.parts.is_zero()
    }

    pub fn admits(&self, want: &Want) -> bool {
        match want {
            Want::Whole => self.is_untouched(),
            Want::Share(part) => part.on(&self.card.capacity).fits_in(&self.free()),
        }
    }

    pub fn take(&mut self, hold: &Hold) {
        match hold {
            Hold::Whole => self.wholes = self.wholes.saturating_add(1),
            Hold::Part(amounts) => self.parts = self.parts.saturating_add(amounts),
        }
    }

    pub fn give(&mut self, hold: &Hold) {
        match hold {
            Hold::Whole => self.wholes = self.wholes.saturating_sub(1),
            Hold::Part(amounts) => self.parts = self.parts.saturating_sub(amounts),
        }
    }

    /// The same card with nothing held of it.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.card.clone())
    }
}
