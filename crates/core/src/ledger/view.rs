//! Reading the ledger: what inspection, metrics and tests see of it.

use std::sync::Arc;

use super::{Booking, Ledger, Node};
use crate::amounts::Amounts;
use crate::card::Card;
use crate::ids::{NodeName, PodUid};
use crate::room::CardRoom;

/// A node with its cards, in the order of their index.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    pub name: &'a NodeName,
    node: &'a Node,
    ledger: &'a Ledger,
}

/// A card, the sum booked on it, and the pods that hold it.
#[derive(Clone, Copy, Debug)]
pub struct CardView<'a> {
    pub card: &'a Card,
    pub used: Amounts,
    pub room: &'a CardRoom,
    node: NodeView<'a>,
}

impl Ledger {
    pub fn nodes(&self) -> impl Iterator<Item = NodeView<'_>> {
        self.nodes.iter().map(|(name, node)| NodeView {
            name,
            node,
            ledger: self,
        })
    }

    pub fn node(&self, name: &str) -> Option<NodeView<'_>> {
        let (name, node) = self.nodes.get_key_value(name)?;
        Some(NodeView {
            name,
            node,
            ledger: self,
        })
    }

    /// Every booking, in the order of pod uids.
    pub fn bookings(&self) -> impl Iterator<Item = (&PodUid, &Booking)> {
        self.bookings.iter()
    }

    /// How many pods are booked, in whatever state.
    pub fn len(&self) -> usize {
        self.bookings.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bookings.is_empty()
    }
}

impl<'a> NodeView<'a> {
    pub fn cards(self) -> impl Iterator<Item = CardView<'a>> {
        self.node.cards.iter().map(move |room| CardView {
            card: &room.card,
            used: room.used(),
            room,
            node: self,
        })
    }

    /// The bookings on the node, in the order of pod uids.
    pub fn bookings(self) -> impl Iterator<Item = (&'a PodUid, &'a Booking)> {
        let pods = self.node.pods.iter();
        pods.filter_map(move |pod| self.ledger.bookings.get_key_value(pod))
    }

    /// The rooms of all cards, for a search.
    pub fn rooms(self) -> &'a [CardRoom] {
        &self.node.cards
    }

    /// A snapshot of [`Self::rooms`] that the caller may keep.
    pub fn shared_rooms(self) -> Arc<Vec<CardRoom>> {
        self.node.cards.clone()
    }

    pub fn card(self, id: &str) -> Option<CardView<'a>> {
        self.cards().find(|view| view.card.id.as_str() == id)
    }
}

impl<'a> CardView<'a> {
    pub fn free(&self) -> Amounts {
        self.room.free()
    }

    /// The pods that hold a part of this card, and how much.
    pub fn pods(&self) -> impl Iterator<Item = (&'a PodUid, Amounts)> {
        let (node, ledger, card) = (self.node.node, self.node.ledger, self.card);
        node.pods.iter().filter_map(move |pod| {
            let hold = ledger.bookings.get(pod)?.charges.get(&card.id)?;
            Some((pod, hold.on(&card.capacity)))
        })
    }
}
