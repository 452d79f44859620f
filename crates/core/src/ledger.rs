//! The ledger: what is booked on every card, and the only place where bookings are made.
//!
//! A booking lives through these states:
//!
//! ```text
//! reserve ──► Reserved ──settle──► Settled ──confirm──► Confirmed ──release──► gone
//!                │                    ▲                    ▲
//!              doubt                learn (by a read)      │ confirm (seen on the watch)
//!                ▼                    │                    │
//!               InDoubt ──────────────┴────────────────────┘
//! ```
//!
//! A booking counts against its cards in every state. `confirm` and `release` come from the watch,
//! which is authoritative; the other transitions bridge the time until its event arrives. Reserving
//! never takes a card past its size. A confirmed record is booked even if it does (a card can shrink
//! under its pods), because running pods must be counted. Room can also be claimed for a pod before it
//! is free, see [`Claim`], and containers can hold it after their pod is gone, see
//! [`Ledger::set_held`].

mod claims;
mod outlived;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::amounts::{Amounts, Classes};
use crate::card::Card;
use crate::held::HeldPod;
use crate::ids::{NodeName, PodUid};
use crate::journal::Journal;
use crate::placement::{Charges, Hold, Placement};
use crate::request::PodAsk;
use crate::room::CardRoom;
use crate::search::Search;
use crate::steps::Steps;
use crate::why::Why;

pub use crate::journal::Bookmark;
pub use claims::Claim;
pub use view::{CardView, NodeView};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookingState {
    /// A bind is under way.
    Reserved,
    /// The bind's outcome is unknown. It may still take effect until a write to the pod voids it.
    InDoubt,
    /// The API server accepted the bind, or a read showed it; the watch has not shown it yet.
    Settled,
    /// The watch shows the pod bound with its record.
    Confirmed,
    /// The pod is gone, but the node agent reports that its containers still run.
    Outlived,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    pub node: NodeName,
    pub placement: Placement,
    pub state: BookingState,
    charges: Charges,
}

/// A pod that is bound according to the API server, with a verified record.
#[derive(Clone, Debug)]
pub struct BoundPod {
    pub pod: PodUid,
    pub node: NodeName,
    pub ask: PodAsk,
    pub placement: Placement,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// Shared with readers that keep them for a while; a change copies them if there are such readers.
    cards: Arc<Vec<CardRoom>>,
    pods: BTreeSet<PodUid>,
    claims: BTreeSet<PodUid>,
    /// What the node agent reports about containers without pods.
    held: BTreeMap<PodUid, HeldPod>,
}

#[derive(Clone, Debug)]
pub struct Ledger {
    classes: Classes,
    nodes: BTreeMap<NodeName, Node>,
    bookings: BTreeMap<PodUid, Booking>,
    claims: BTreeMap<PodUid, Claim>,
    /// By pod, the node whose agent reports containers that outlive the pod.
    told: BTreeMap<PodUid, NodeName>,
    /// Every node whose rooms changed.
    journal: Journal<NodeName>,
}

impl Ledger {
    pub fn new(classes: Classes) -> Self {
        Self {
            classes,
            nodes: BTreeMap::new(),
            bookings: BTreeMap::new(),
            claims: BTreeMap::new(),
            told: BTreeMap::new(),
            journal: Journal::default(),
        }
    }

    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Replaces a node's inventory; what is booked there stays booked.
    pub fn set_node(&mut self, name: &NodeName, cards: Vec<Card>) {
        let node = self.nodes.entry(name.clone()).or_default();
        let mut rooms: Vec<CardRoom> = cards.into_iter().map(CardRoom::new).collect();
        rooms.sort_by(|a, b| (a.card.index, &a.card.id).cmp(&(b.card.index, &b.card.id)));
        for booking in node.pods.iter().filter_map(|pod| self.bookings.get(pod)) {
            for (id, hold) in &booking.charges {
                if let Some(room) = rooms.iter_mut().find(|room| room.card.id == *id) {
                    booking.state.taken()(room, hold);
                }
            }
        }
        node.cards = Arc::new(rooms);
        self.count_claims(name);
        self.journal.enter(name.clone());
    }

    /// Forgets a node's cards. Bookings end with their pods, not with the node.
    pub fn remove_node(&mut self, name: &str) {
        self.forget_held(&NodeName::new(name));
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        node.cards = Arc::default();
        if node.is_forgotten() {
            self.nodes.remove(name);
        }
        self.journal.enter(NodeName::new(name));
    }

    /// The bookmark of a caller that has just looked at all rooms, for [`Self::changed_since`].
    pub fn bookmark(&self) -> Bookmark {
        self.journal.end()
    }

    /// The nodes whose rooms have changed since the bookmark; `None` if any node may have changed.
    pub fn changed_since(&self, read: Bookmark) -> Option<impl Iterator<Item = &NodeName>> {
        self.journal.since(read)
    }

    /// Whether no room is booked or claimed for the pod, so that it fits wherever an equal pod fits.
    pub fn holds_nothing_for(&self, pod: &str) -> bool {
        !self.bookings.contains_key(pod) && !self.claims.contains_key(pod)
    }

    /// A pod's request, prepared to be checked against many nodes.
    pub fn search<'a>(&'a self, ask: &'a PodAsk, steps: &'a Steps) -> Search<'a> {
        Search::new(&self.classes, ask, steps)
    }

    /// Whether the node can take the pod now. Changes nothing.
    pub fn fit(&self, node: &str, pod: &PodUid, search: &Search<'_>) -> Result<(), Why> {
        self.fitting(pod, search)(node)
    }

    /// [`Self::fit`] for many nodes; looks up the pod only once.
    pub fn fitting<'a>(
        &'a self,
        pod: &'a PodUid,
        search: &'a Search<'_>,
    ) -> impl Fn(&str) -> Result<(), Why> + 'a {
        let booking = self.bookings.get(pod);
        let claim = self.claims.get(pod).filter(|_| booking.is_none());
        move |node| {
            if let Some(booking) = booking {
                return Err(booking.refusal());
            }
            let why = match claim.filter(|claim| claim.node.as_str() == node) {
                Some(_) => search.why(&self.rooms_without_claims(node, |other| other == pod)),
                None => search.why(self.cards(node)),
            };
            why.map_or(Ok(()), Err)
        }
    }

    /// What would stay free on the cards that the pod would get; `None` if it does not fit.
    pub fn left(&self, node: &str, pod: &PodUid, search: &Search<'_>) -> Option<Amounts> {
        if self.bookings.contains_key(pod) {
            return None;
        }
        // Zero left makes the node with the pod's claim the first choice.
        if self.claim_on(node, pod).is_some() {
            let fits = self.fit(node, pod, search).is_ok();
            return fits.then_some(Amounts::ZERO);
        }
        let cards = self.cards(node);
        let placement = search.place(cards).ok()?;
        let mut left = Amounts::ZERO;
        for (id, hold) in placement.charges(search.ask()) {
            let room = cards.iter().find(|room| room.card.id == id)?;
            let held = hold.on(&room.card.capacity);
            left = left.saturating_add(&room.free().saturating_sub(&held));
        }
        Some(left)
    }

    fn cards(&self, node: &str) -> &[CardRoom] {
        let node = self.nodes.get(node);
        node.map_or(&[], |node| node.cards.as_slice())
    }

    /// Chooses the pod's cards on the node and books them, in one step.
    ///
    /// Refuses a pod that is already booked, so two binds of it are never under way at the same time.
    ///
    /// `choose` may return a placement on the node's cards; if it returns none, or one that does not
    /// fit, the tightest cards are taken.
    pub fn reserve_with(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        ask: &PodAsk,
        steps: &Steps,
        choose: impl FnOnce(&Search<'_>, &[CardRoom]) -> Option<Placement>,
    ) -> Result<Placement, Why> {
        if let Some(booking) = self.bookings.get(pod) {
            return Err(booking.refusal());
        }
        let search = self.search(ask, steps);
        let placement = if let Some(claim) = self.claim_on(node.as_str(), pod) {
            let rooms = self.rooms_without_claims(node.as_str(), |other| other == pod);
            if claim.fits(&rooms) {
                claim.placement.clone()
            } else {
                search.place(&rooms)?
            }
        } else {
            let cards = self.cards(node.as_str());
            match choose(&search, cards) {
                Some(placement) => placement,
                None => search.place(cards)?,
            }
        };
        self.insert(pod, node, ask, placement.clone(), BookingState::Reserved);
        Ok(placement)
    }

    /// [`Self::reserve_with`] on the tightest cards.
    pub fn reserve(
        &mut self,
        pod: &PodUid,
        node: &NodeName,
        ask: &PodAsk,
    ) -> Result<Placement, Why> {
        self.reserve_with(pod, node, ask, &Steps::for_request(), |_, _| None)
    }

    /// The API server accepted the bind. A booking that the watch ended in the meantime stays ended.
    pub fn settle(&mut self, pod: &PodUid) {
        self.change_reserved(pod, BookingState::Settled);
    }

    /// The bind's outcome is unknown: the booking stays until the outcome is known.
    pub fn doubt(&mut self, pod: &PodUid) {
        self.change_reserved(pod, BookingState::InDoubt);
    }

    fn change_reserved(&mut self, pod: &PodUid, state: BookingState) {
        if let Some(booking) = self.bookings.get_mut(pod)
            && booking.state == BookingState::Reserved
        {
            booking.state = state;
        }
    }

    /// The watch shows the pod bound.
    pub fn confirm(&mut self, bound: BoundPod) {
        self.take_over(bound, BookingState::Confirmed);
    }

    /// A single read shows the pod bound. The watch may be behind: a list without the pod can still
    /// arrive.
    pub fn learn(&mut self, bound: BoundPod) {
        self.take_over(bound, BookingState::Settled);
    }

    fn take_over(&mut self, bound: BoundPod, state: BookingState) {
        let BoundPod {
            pod,
            node,
            ask,
            placement,
        } = bound;
        if let Some(booking) = self.bookings.get_mut(&pod)
            && booking.node == node
            && booking.placement == placement
        {
            if booking.state != BookingState::Confirmed {
                booking.state = state;
            }
            return;
        }
        self.remove(&pod);
        self.insert(&pod, &node, &ask, placement, state);
    }

    /// Ends a booking: the bind failed for certain, the containers have ended, or the pod is gone. What
    /// its containers still hold, as the node agent reports, stays booked.
    pub fn release(&mut self, pod: &PodUid) -> bool {
        let booked = self.remove(pod);
        if let Some(node) = self.told.get(pod).cloned() {
            self.book_outlived(&node);
        }
        booked
    }

    /// Removes a booking from the books, if there is one.
    fn remove(&mut self, pod: &PodUid) -> bool {
        let Some(booking) = self.bookings.remove(pod) else {
            return false;
        };
        if self
            .claims
            .get(pod)
            .is_some_and(|claim| claim.node == booking.node)
        {
            self.resume_claim(pod);
        }
        self.journal.enter(booking.node.clone());
        if let Some(node) = self.nodes.get_mut(&booking.node) {
            node.pods.remove(pod);
            each_room(&mut node.cards, &booking.charges, booking.state.given());
            if node.is_forgotten() {
                self.nodes.remove(&booking.node);
            }
        }
        true
    }

    /// Applies a complete list of bound pods. Confirmed bookings that are not in it end. Bookings that
    /// the watch never showed may be newer than the list: they stay, and are returned to be looked up
    /// one by one.
    pub fn rebuild(&mut self, bound: Vec<BoundPod>) -> Vec<PodUid> {
        let listed: BTreeSet<PodUid> = bound.iter().map(|bound| bound.pod.clone()).collect();
        let unlisted: Vec<(PodUid, BookingState)> = self
            .bookings
            .iter()
            .filter(|(pod, booking)| {
                booking.state != BookingState::Outlived && !listed.contains(*pod)
            })
            .map(|(pod, booking)| (pod.clone(), booking.state))
            .collect();
        for bound in bound {
            self.confirm(bound);
        }
        let mut unsure = Vec::new();
        for (pod, state) in unlisted {
            if state == BookingState::Confirmed {
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
        mut placement: Placement,
        state: BookingState,
    ) {
        if self
            .claims
            .get(pod)
            .is_some_and(|claim| claim.node == *node_name)
        {
            self.suspend_claim(pod);
        }
        let known = self.nodes.get_key_value(node_name);
        let name = known.map_or(node_name, |(known, _)| known).clone();
        let node = self.nodes.entry(name.clone()).or_default();
        // Saves memory: tens of thousands of bookings share the strings of their card ids.
        placement.share_ids(&node.cards.iter().map(|room| &room.card.id));
        let charges = placement.charges(ask);
        let booking = Booking {
            node: name,
            placement,
            state,
            charges,
        };
        self.enter(pod, booking);
    }

    /// Puts a booking into the books.
    fn enter(&mut self, pod: &PodUid, booking: Booking) {
        let node = self.nodes.entry(booking.node.clone()).or_default();
        node.pods.insert(pod.clone());
        each_room(&mut node.cards, &booking.charges, booking.state.taken());
        self.journal.enter(booking.node.clone());
        self.bookings.insert(pod.clone(), booking);
    }
}

impl BookingState {
    /// How a booking in this state takes room.
    fn taken(self) -> fn(&mut CardRoom, &Hold) {
        match self {
            Self::Outlived => CardRoom::take_outlived,
            _ => CardRoom::take,
        }
    }

    /// How a booking in this state gives its room back.
    fn given(self) -> fn(&mut CardRoom, &Hold) {
        match self {
            Self::Outlived => CardRoom::give_outlived,
            _ => CardRoom::give,
        }
    }
}

/// Applies a change to the room of each charged card.
fn each_room(rooms: &mut Arc<Vec<CardRoom>>, charges: &Charges, change: fn(&mut CardRoom, &Hold)) {
    for (id, hold) in charges {
        let place = rooms.iter().position(|room| room.card.id == *id);
        if let Some(room) = place.and_then(|at| Arc::make_mut(rooms).get_mut(at)) {
            change(room, hold);
        }
    }
}

impl Booking {
    /// What each card keeps for the pod.
    pub fn charges(&self) -> &Charges {
        &self.charges
    }

    /// Why its pod cannot be placed again.
    fn refusal(&self) -> Why {
        let node = self.node.clone();
        match self.state {
            BookingState::InDoubt => Why::BindInDoubt { node },
            BookingState::Reserved => Why::BindInProgress { node },
            BookingState::Settled | BookingState::Confirmed | BookingState::Outlived => {
                Why::AlreadyBound { node }
            }
        }
    }
}
