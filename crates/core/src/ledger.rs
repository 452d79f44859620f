//! The ledger: what is booked on every card, and the only place where bookings are made.
//!
//! A booking lives through these states:
//!
//! ```text
//! reserve ──► Reserved ──settle──► Settled ──confirm──► Confirmed ──release──► gone
//!                │  ▲                                      ▲
//!              doubt reserve (same node)                   │ confirm (seen on the watch)
//!                ▼  │                                      │
//!               InDoubt ───────────────────────────────────┘
//! ```
//!
//! Every state counts against the card. `confirm` and `release` come from the watch, which is the
//! truth; the others bridge the time until it arrives. Reserving never takes a card past its size.
//! A confirmed record is booked even if it does (a card can shrink under its pods): what runs must be
//! counted.

mod view;

use std::collections::{BTreeMap, BTreeSet};

use crate::amounts::{Amounts, DeviceClass};
use crate::card::Card;
use crate::ids::{CardId, NodeName, PodUid};
use crate::placement::Placement;
use crate::policy::{self, CardUse};
use crate::request::PodAsk;
use crate::why::Why;

pub use view::{CardView, NodeView};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A bind is under way.
    Reserved,
    /// The bind's outcome is unknown; it may still take effect.
    InDoubt,
    /// The API server accepted the bind; the watch has not shown it yet.
    Settled,
    /// The watch shows the pod bound with its record.
    Confirmed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    pub node: NodeName,
    pub placement: Placement,
    pub state: State,
    charges: BTreeMap<CardId, Amounts>,
}

/// A pod that the API server shows bound, with a record that was verified.
#[derive(Clone, Debug)]
pub struct Bound {
    pub pod: PodUid,
    pub node: NodeName,
    pub ask: PodAsk,
    pub placement: Placement,
}

#[derive(Clone, Debug)]
struct CardState {
    card: Card,
    used: Amounts,
}

#[derive(Clone, Debug, Default)]
struct Node {
    cards: Vec<CardState>,
    pods: BTreeSet<PodUid>,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    class: DeviceClass,
    nodes: BTreeMap<NodeName, Node>,
    bookings: BTreeMap<PodUid, Booking>,
}

/// A card of a node that fits, and what would stay free on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFit {
    pub card: CardId,
    pub left: Amounts,
}

impl Ledger {
    pub fn new(class: DeviceClass) -> Self {
        Self {
            class,
            nodes: BTreeMap::new(),
            bookings: BTreeMap::new(),
        }
    }

    pub fn class(&self) -> &DeviceClass {
        &self.class
    }

    /// Takes over a node's inventory; what is booked there stays booked.
    pub fn set_node(&mut self, name: &NodeName, cards: Vec<Card>) {
        let node = self.nodes.entry(name.clone()).or_default();
        node.cards = cards
            .into_iter()
            .map(|card| CardState {
                card,
                used: Amounts::ZERO,
            })
            .collect();
        node.cards
            .sort_by(|a, b| (a.card.index, &a.card.id).cmp(&(b.card.index, &b.card.id)));
        let booked = node.pods.iter().filter_map(|pod| self.bookings.get(pod));
        for (id, amounts) in booked.flat_map(|booking| &booking.charges) {
            if let Some(state) = node.cards.iter_mut().find(|state| state.card.id == *id) {
                state.used = state.used.saturating_add(amounts);
            }
        }
    }

    /// Forgets a node's cards. Bookings end with their pods, not with the node.
    pub fn remove_node(&mut self, name: &str) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        node.cards.clear();
        if node.pods.is_empty() {
            self.nodes.remove(name);
        }
    }

    /// Whether and how well the node can take the pod now. Changes nothing.
    pub fn fit(&self, node: &str, pod: &PodUid, ask: &PodAsk) -> Result<NodeFit, Why> {
        self.fit_peak(node, pod, &ask.peak())
    }

    /// [`Self::fit`] with the pod's peak computed once for many nodes.
    pub fn fit_peak(&self, node: &str, pod: &PodUid, peak: &Amounts) -> Result<NodeFit, Why> {
        if let Some(booking) = self.bookings.get(pod) {
            return booking.fit_again(node);
        }
        let fit = self.choose(node, peak)?;
        Ok(NodeFit {
            card: fit.card.id.clone(),
            left: fit.left,
        })
    }

    fn choose(&self, node: &str, peak: &Amounts) -> Result<policy::Fit<'_>, Why> {
        let cards = self
            .nodes
            .get(node)
            .map_or(&[][..], |node| node.cards.as_slice());
        let cards = cards.iter().map(|state| CardUse {
            card: &state.card,
            used: state.used,
        });
        policy::tightest(&self.class, cards, peak)
    }

    /// Decides the pod's cards on the node and books them, in one step.
    ///
    /// A pod whose earlier bind is in doubt gets the same placement again on the same node, so that a
    /// second attempt cannot book it twice whichever of the two takes effect.
    pub fn reserve(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        ask: &PodAsk,
    ) -> Result<Placement, Why> {
        if let Some(booking) = self.bookings.get_mut(pod) {
            booking.fit_again(node.as_str())?;
            booking.state = State::Reserved;
            return Ok(booking.placement.clone());
        }
        let fit = self.choose(node.as_str(), &ask.peak())?;
        let placement = Placement::on_one_card(ask, &fit.card.id);
        self.insert(pod, node, ask, placement.clone(), State::Reserved);
        Ok(placement)
    }

    /// The API server accepted the bind. A booking that the watch has ended meanwhile stays ended.
    pub fn settle(&mut self, pod: &PodUid) {
        self.change_reserved(pod, State::Settled);
    }

    /// The bind's outcome is unknown: the booking stays, for this node only.
    pub fn doubt(&mut self, pod: &PodUid) {
        self.change_reserved(pod, State::InDoubt);
    }

    fn change_reserved(&mut self, pod: &PodUid, state: State) {
        if let Some(booking) = self.bookings.get_mut(pod)
            && booking.state == State::Reserved
        {
            booking.state = state;
        }
    }

    /// The watch shows the pod bound.
    pub fn confirm(&mut self, bound: Bound) {
        let Bound {
            pod,
            node,
            ask,
            placement,
        } = bound;
        if let Some(booking) = self.bookings.get_mut(&pod)
            && booking.node == node
            && booking.placement == placement
        {
            booking.state = State::Confirmed;
            return;
        }
        self.release(&pod);
        self.insert(&pod, &node, &ask, placement, State::Confirmed);
    }

    /// Ends a booking: the bind failed for certain, the containers have ended, or the pod is gone.
    pub fn release(&mut self, pod: &PodUid) -> bool {
        let Some(booking) = self.bookings.remove(pod) else {
            return false;
        };
        let Some(node) = self.nodes.get_mut(&booking.node) else {
            return true;
        };
        node.pods.remove(pod);
        for (id, amounts) in &booking.charges {
            if let Some(state) = node.cards.iter_mut().find(|state| state.card.id == *id) {
                state.used = state.used.saturating_sub(amounts);
            }
        }
        if node.pods.is_empty() && node.cards.is_empty() {
            self.nodes.remove(&booking.node);
        }
        true
    }

    /// Takes over a complete list of bound pods. Confirmed bookings that are not in it end; those the
    /// watch never showed may be newer than the list and stay. They are returned, to be looked up one
    /// by one.
    pub fn rebuild(&mut self, bound: Vec<Bound>) -> Vec<PodUid> {
        let listed: BTreeSet<PodUid> = bound.iter().map(|bound| bound.pod.clone()).collect();
        let unlisted: Vec<(PodUid, State)> = self
            .bookings
            .iter()
            .filter(|(pod, _)| !listed.contains(*pod))
            .map(|(pod, booking)| (pod.clone(), booking.state))
            .collect();
        for bound in bound {
            self.confirm(bound);
        }
        let mut unsure = Vec::new();
        for (pod, state) in unlisted {
            if state == State::Confirmed {
                self.release(&pod);
            } else {
                unsure.push(pod);
            }
        }
        unsure
    }

    pub fn booking(&self, pod: &str) -> Option<&Booking> {
        self.bookings.get(pod)
    }

    fn insert(
        &mut self,
        pod: &PodUid,
        node_name: &NodeName,
        ask: &PodAsk,
        placement: Placement,
        state: State,
    ) {
        let charges = placement.charges(ask);
        let node = self.nodes.entry(node_name.clone()).or_default();
        node.pods.insert(pod.clone());
        for (id, amounts) in &charges {
            if let Some(state) = node.cards.iter_mut().find(|state| state.card.id == *id) {
                state.used = state.used.saturating_add(amounts);
            }
        }
        let booking = Booking {
            node: node_name.clone(),
            placement,
            state,
            charges,
        };
        self.bookings.insert(pod.clone(), booking);
    }
}

impl Booking {
    /// What an existing booking means for placing its pod again.
    fn fit_again(&self, node: &str) -> Result<NodeFit, Why> {
        let held = self.node.clone();
        match self.state {
            State::InDoubt if held.as_str() == node => {
                let card = self.charges.keys().next().cloned();
                card.map(|card| NodeFit {
                    card,
                    left: Amounts::ZERO,
                })
                .ok_or(Why::HeldElsewhere { node: held })
            }
            State::InDoubt => Err(Why::HeldElsewhere { node: held }),
            State::Reserved => Err(Why::BindInProgress { node: held }),
            State::Settled | State::Confirmed => Err(Why::AlreadyBound { node: held }),
        }
    }
}
