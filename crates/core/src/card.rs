//! A card: one physical (or MIG) device that pods share.

use std::sync::Arc;

use crate::amounts::Amounts;
use crate::ids::CardId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub id: CardId,
    /// The device class this card belongs to.
    pub class: Arc<str>,
    /// Position on the node as the vendor's tools show it. For people only: it can change at a reboot.
    pub index: u32,
    pub model: Arc<str>,
    pub capacity: Amounts,
    /// An unhealthy card takes no new pods; the pods on it stay booked.
    pub healthy: bool,
}
