//! One card, and what the containers of a pod would hold there.

use std::cmp::Ordering;

use crate::amounts::Amounts;
use crate::request::{ContainerAsk, Role, Want, peak};
use crate::room::CardRoom;

/// A card as the search sees it: as it is, or as if no pod held a part of it.
#[derive(Clone, Copy, Debug)]
pub(in crate::search) struct Spot<'n> {
    pub(in crate::search) room: &'n CardRoom,
    pub(super) free: Amounts,
    untouched: bool,
}

impl<'n> Spot<'n> {
    pub(in crate::search) fn new(room: &'n CardRoom, emptied: bool) -> Self {
        Self {
            room,
            free: if emptied {
                room.card.capacity
            } else {
                room.free()
            },
            untouched: emptied || room.is_untouched(),
        }
    }

    pub(super) fn admits(&self, want: &Want) -> bool {
        match want {
            Want::Whole => self.untouched,
            Want::Share(part) => part.on(&self.room.card.capacity).fits_in(&self.free),
        }
    }

    /// The order in which cards are tried: least free first, then by index and id, so that it is deterministic.
    pub(in crate::search) fn by_tightness(&self, other: &Self) -> Ordering {
        let place = |spot: &Self| (spot.free, spot.room.card.index);
        let by_id = || self.room.card.id.cmp(&other.room.card.id);
        place(self).cmp(&place(other)).then_with(by_id)
    }

    /// Whether the two cards are equivalent for the pod.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.free == other.free
            && self.room.card.capacity == other.room.card.capacity
            && self.untouched == other.untouched
    }
}

/// A card and what the pod's containers would hold there.
#[derive(Debug)]
pub(super) struct Load<'n> {
    pub(super) spot: Spot<'n>,
    /// Equivalent cards have the same number.
    pub(super) kind: usize,
    /// Sorted by the place of the request.
    held: Vec<(usize, Role, Amounts)>,
    /// The part of it that is held as long as the pod runs.
    pub(super) lasting: Amounts,
    inits: usize,
    wholes: usize,
}

impl<'n> Load<'n> {
    pub(super) fn new(spot: Spot<'n>, kind: usize) -> Self {
        Self {
            spot,
            kind,
            held: Vec::new(),
            lasting: Amounts::ZERO,
            inits: 0,
            wholes: 0,
        }
    }

    /// How many steps a check of the card for this request counts as.
    pub(super) fn steps(&self, ask: &ContainerAsk) -> usize {
        if self.is_in_turns(ask) {
            1 + self.held.len()
        } else {
            1
        }
    }

    /// Whether some containers run after others, so that their shares do not simply add up.
    fn is_in_turns(&self, ask: &ContainerAsk) -> bool {
        self.inits > 0 || ask.role == Role::Init
    }

    /// Whether the request may use the card beside the requests that already do.
    pub(super) fn admits(&self, place: usize, ask: &ContainerAsk) -> bool {
        let whole = self.wholes > 0 || ask.want == Want::Whole;
        if whole && !self.spot.untouched {
            return false;
        }
        let amounts = ask.want.on(&self.spot.room.card.capacity);
        if !self.is_in_turns(ask) {
            return self
                .lasting
                .saturating_add(&amounts)
                .fits_in(&self.spot.free);
        }
        let holds = |(_, role, amounts): &(usize, Role, Amounts)| (*role, *amounts);
        let before = self.held.iter().filter(|held| held.0 < place).map(holds);
        let after = self.held.iter().filter(|held| held.0 > place).map(holds);
        peak(before.chain([(ask.role, amounts)]).chain(after)).fits_in(&self.spot.free)
    }

    pub(super) fn put(&mut self, place: usize, ask: &ContainerAsk) {
        let amounts = ask.want.on(&self.spot.room.card.capacity);
        let at = self.held.partition_point(|held| held.0 < place);
        self.held.insert(at, (place, ask.role, amounts));
        self.count(ask);
    }

    pub(super) fn take_back(&mut self, place: usize, ask: &ContainerAsk) {
        self.held.retain(|held| held.0 != place);
        self.inits -= usize::from(ask.role == Role::Init);
        self.wholes -= usize::from(ask.want == Want::Whole);
        self.lasting = Amounts::ZERO;
        for (_, role, amounts) in &self.held {
            if *role != Role::Init {
                self.lasting = self.lasting.saturating_add(amounts);
            }
        }
    }

    fn count(&mut self, ask: &ContainerAsk) {
        self.inits += usize::from(ask.role == Role::Init);
        self.wholes += usize::from(ask.want == Want::Whole);
        if ask.role != Role::Init {
            let amounts = ask.want.on(&self.spot.room.card.capacity);
            self.lasting = self.lasting.saturating_add(&amounts);
        }
    }

    /// Whether the two cards are equivalent for all requests still to be placed.
    pub(super) fn equals(&self, other: &Self) -> bool {
        self.kind == other.kind && self.held == other.held
    }

    pub(super) fn is_used(&self) -> bool {
        !self.held.is_empty()
    }
}
