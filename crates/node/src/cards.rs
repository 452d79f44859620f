//! What is known of the node's cards, as one value that everything else watches.
//!
//! Written by [`crate::nvml`], or by code that simulates the driver.

use std::sync::Arc;

use gpushare_core::Card;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cards {
    /// The driver has not been queried yet.
    #[default]
    Unknown,
    /// The driver cannot be read, and this agent has not been able to read it since it started.
    Unreadable,
    /// As last read; cards that cannot be read any more are included as sick.
    Known(Arc<[Card]>),
}

impl Cards {
    pub fn known(&self) -> Option<&Arc<[Card]>> {
        match self {
            Self::Known(cards) => Some(cards),
            Self::Unknown | Self::Unreadable => None,
        }
    }

    /// The same cards, none of which takes new pods.
    #[must_use]
    pub fn all_sick(&self) -> Self {
        match self.known() {
            None => Self::Unreadable,
            Some(cards) => Self::Known(cards.iter().map(sick).collect()),
        }
    }
}

/// The same card, taking no new pods.
pub fn sick(card: &Card) -> Card {
    Card {
        healthy: false,
        ..card.clone()
    }
}
