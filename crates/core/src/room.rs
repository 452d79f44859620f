//! The room on one card: what is held of it and what is free.

use crate::amounts::Amounts;
use crate::card::Card;
use crate::placement::Hold;
use crate::request::Want;

#[derive(Clone, Debug)]
pub struct CardRoom {
    pub card: Card,
    held: Load,
    /// Kept for pods that wait until other pods have ended; see [`crate::ledger`].
    claimed: Load,
    /// How many of the holders are containers whose pod is gone.
    outlived: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    parts: Amounts,
    /// Pods that hold the whole card. More than one only if records contradict each other.
    wholes: u32,
}

impl CardRoom {
    pub fn new(card: Card) -> Self {
        Self {
            card,
            held: Load::default(),
            claimed: Load::default(),
            outlived: 0,
        }
    }

    /// What is held, in amounts.
    pub fn used(&self) -> Amounts {
        if self.held.wholes > 0 {
            self.card.capacity.max_each(&self.held.parts)
        } else {
            self.held.parts
        }
    }

    /// What is neither held nor claimed.
    pub fn free(&self) -> Amounts {
        if self.held.wholes > 0 || self.claimed.wholes > 0 {
            return Amounts::ZERO;
        }
        let held = self.card.capacity.saturating_sub(&self.held.parts);
        held.saturating_sub(&self.claimed.parts)
    }

    /// Whether no pod holds or claims a part of it.
    pub fn is_untouched(&self) -> bool {
        self.held.is_nothing() && self.claimed.is_nothing()
    }

    pub fn admits(&self, want: &Want) -> bool {
        match want {
            Want::Whole => self.is_untouched(),
            Want::Share(part) => part.on(&self.card.capacity).fits_in(&self.free()),
        }
    }

    /// Whether this much is free.
    pub fn has(&self, hold: &Hold) -> bool {
        match hold {
            Hold::Whole => self.is_untouched(),
            Hold::Part(amounts) => amounts.fits_in(&self.free()),
        }
    }

    pub fn take(&mut self, hold: &Hold) {
        self.held.add(hold);
    }

    pub fn give(&mut self, hold: &Hold) {
        self.held.remove(hold);
    }

    /// Like [`Self::take`], for containers whose pod is gone.
    pub fn take_outlived(&mut self, hold: &Hold) {
        self.take(hold);
        self.outlived = self.outlived.saturating_add(1);
    }

    /// Like [`Self::give`], for containers whose pod is gone.
    pub fn give_outlived(&mut self, hold: &Hold) {
        self.give(hold);
        self.outlived = self.outlived.saturating_sub(1);
    }

    /// Whether containers whose pod is gone hold a part of it.
    pub fn is_outlived(&self) -> bool {
        self.outlived > 0
    }

    /// Keeps room for a pod, even while others still hold it.
    pub fn claim(&mut self, hold: &Hold) {
        self.claimed.add(hold);
    }

    pub fn unclaim(&mut self, hold: &Hold) {
        self.claimed.remove(hold);
    }

    /// The same card with nothing held of it.
    #[must_use]
    pub fn emptied(&self) -> Self {
        Self::new(self.card.clone())
    }
}

impl Load {
    fn is_nothing(&self) -> bool {
        self.wholes == 0 && self.parts.is_zero()
    }

    fn add(&mut self, hold: &Hold) {
        match hold {
            Hold::Whole => self.wholes = self.wholes.saturating_add(1),
            Hold::Part(amounts) => self.parts = self.parts.saturating_add(amounts),
        }
    }

    fn remove(&mut self, hold: &Hold) {
        match hold {
            Hold::Whole => self.wholes = self.wholes.saturating_sub(1),
            Hold::Part(amounts) => self.parts = self.parts.saturating_sub(amounts),
        }
    }
}
