//! Spaces: what is free on one node, and whether a shape fits there.

use thiserror::Error;

use super::grain::{self, GRAINS};
use super::pool::PoolId;
use super::shape::{Shape, Want};
use gpushare_core::amounts::{Amounts, MAX_DIMENSIONS};

/// The most cards on one node, so that a set of them fits into one machine word.
pub const MAX_CARDS: usize = 64;

/// Cards of one node, by index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CardSet(u64);

impl CardSet {
    #[must_use]
    pub fn with(self, card: usize) -> Self {
        if card < MAX_CARDS {
            Self(self.0 | 1 << card)
        } else {
            self
        }
    }

    pub fn contains(self, card: usize) -> bool {
        card < MAX_CARDS && self.0 >> card & 1 == 1
    }

    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let next = usize::try_from(rest.trailing_zeros()).ok()?;
            (rest != 0).then(|| {
                rest &= rest - 1;
                next
            })
        })
    }

    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<usize> for CardSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cards: I) -> Self {
        cards.into_iter().fold(Self::default(), Self::with)
    }
}

/// A card's size and free room. A card that must not take pods has nothing free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRoom {
    pub pool: PoolId,
    pub capacity: Amounts,
    free: Amounts,
    room: i64,
}

impl CardRoom {
    pub fn new(pool: PoolId, capacity: Amounts, free: Amounts) -> Self {
        Self {
            pool,
            capacity,
            free,
            room: grain::room(&free, &capacity),
        }
    }

    pub fn free(&self) -> &Amounts {
        &self.free
    }

    /// The free part in grains.
    pub fn room(&self) -> i64 {
        self.room
    }

    /// Whether no pod holds a part of it.
    pub fn is_untouched(&self) -> bool {
        self.free == self.capacity
    }

    pub fn admits(&self, want: &Want) -> bool {
        match want {
            Want::Whole => self.is_untouched(),
            Want::Share(part) => part.on(&self.capacity).fits_in(&self.free),
        }
    }

    /// What is left after the pod arrives.
    pub(super) fn left(&self, want: &Want) -> Remainder {
        let free = match want {
            Want::Whole => Amounts::ZERO,
            Want::Share(part) => self.free.saturating_sub(&part.on(&self.capacity)),
        };
        Remainder {
            free,
            room: grain::room(&free, &self.capacity),
        }
    }

    /// Whether the card would admit a request if only this were left of it.
    pub(super) fn would_admit(&self, want: &Want, left: &Remainder) -> bool {
        match want {
            Want::Whole => left.free == self.capacity,
            Want::Share(part) => part.on(&self.capacity).fits_in(&left.free),
        }
    }

    /// The card after the pod arrives.
    #[must_use]
    fn less(&self, want: &Want) -> Self {
        let Remainder { free, room } = self.left(want);
        Self {
            free,
            room,
            ..*self
        }
    }

    /// The card after the pod leaves.
    #[must_use]
    fn plus(&self, want: &Want) -> Self {
        let free = match want {
            Want::Whole => self.capacity,
            Want::Share(part) => {
                let sum = self.free.saturating_add(&part.on(&self.capacity));
                let excess = sum.saturating_sub(&self.capacity);
                sum.saturating_sub(&excess)
            }
        };
        Self::new(self.pool, self.capacity, free)
    }
}

/// What is left of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Remainder {
    free: Amounts,
    pub(super) room: i64,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the node has {0} cards; gpushare counts up to {MAX_CARDS} a node")]
pub struct TooManyCards(pub usize);

/// What is free on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    pub cpu: i64,
    pub memory: i64,
    cards: Vec<CardRoom>,
    /// Card indexes sorted by (pool, room, free amounts, index), so that similar cards are neighbours.
    order: Vec<u8>,
    /// The most that any card has free in each dimension; enough to refuse most shapes at once.
    most: Amounts,
}

impl Space {
    pub fn new(cpu: i64, memory: i64, cards: Vec<CardRoom>) -> Result<Self, TooManyCards> {
        if cards.len() > MAX_CARDS {
            return Err(TooManyCards(cards.len()));
        }
        let mut space = Self {
            cpu,
            memory,
            order: (0..=u8::MAX).take(cards.len()).collect(),
            cards,
            most: Amounts::ZERO,
        };
        space.arrange();
        Ok(space)
    }

    pub fn cards(&self) -> &[CardRoom] {
        &self.cards
    }

    pub fn card(&self, index: usize) -> Option<&CardRoom> {
        self.cards.get(index)
    }

    /// Grains free on all cards together.
    pub fn room(&self) -> i64 {
        self.cards.iter().map(CardRoom::room).sum()
    }

    /// A number that equal spaces share and others practically never do.
    pub(super) fn fingerprint(&self) -> u64 {
        let host = [self.cpu.cast_unsigned(), self.memory.cast_unsigned()];
        let cards = self.cards.iter().flat_map(|card| {
            let pool = u64::try_from(card.pool.index()).unwrap_or(0);
            let free = (0..MAX_DIMENSIONS).map(|dimension| card.free.get(dimension));
            std::iter::once(pool).chain(free)
        });
        host.into_iter().chain(cards).fold(0, |state, number| {
            (state ^ number)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
        })
    }

    /// Whether some choice of cards can take the pod.
    pub fn fits(&self, shape: &Shape) -> bool {
        self.host_fits(shape) && self.fitting(shape).count() >= needed(shape)
    }

    fn host_fits(&self, shape: &Shape) -> bool {
        shape.cpu <= self.cpu
            && shape.memory <= self.memory
            && match &shape.want {
                Want::Share(part) if shape.cards > 0 => part.amounts.fits_in(&self.most),
                _ => true,
            }
    }

    /// The cards that admit the shape, in the same order as `order`.
    fn fitting<'a>(&'a self, shape: &'a Shape) -> impl Iterator<Item = (u8, &'a CardRoom)> {
        self.order.iter().filter_map(move |index| {
            let card = self.cards.get(usize::from(*index))?;
            (shape.cards > 0 && shape.pools.contains(card.pool) && card.admits(&shape.want))
                .then_some((*index, card))
        })
    }

    /// Calls `visit` with every choice of cards worth comparing: cards that are neighbours in `order`,
    /// with the lowest indexes among equal cards. For a pod with one card, these are the distinct kinds
    /// of cards that admit it.
    pub fn choices(&self, shape: &Shape, mut visit: impl FnMut(CardSet)) {
        if !self.host_fits(shape) {
            return;
        }
        let needed = needed(shape);
        if needed == 0 {
            visit(CardSet::default());
            return;
        }
        let mut fitting = [0_u8; MAX_CARDS];
        let mut found = 0;
        for (slot, (index, _)) in fitting.iter_mut().zip(self.fitting(shape)) {
            *slot = index;
            found += 1;
        }
        let fitting = fitting.get(..found).unwrap_or_default();
        let mut before: Option<&CardRoom> = None;
        for window in fitting.windows(needed) {
            let enters = window.last().and_then(|index| self.card((*index).into()));
            // Moving the window by one changes nothing if the card that enters equals the one that leaves.
            if before.is_none() || before != enters {
                visit(window.iter().copied().map(usize::from).collect());
            }
            before = window.first().and_then(|index| self.card((*index).into()));
        }
    }

    /// Books the pod on these cards; returns false and changes nothing if they do not admit it.
    pub fn take(&mut self, shape: &Shape, cards: CardSet) -> bool {
        let admitted = shape.cpu <= self.cpu
            && shape.memory <= self.memory
            && cards.len() == shape.cards
            && cards.iter().all(|index| {
                self.card(index)
                    .is_some_and(|card| shape.pools.contains(card.pool) && card.admits(&shape.want))
            });
        if admitted {
            self.change(shape, cards, |card| card.less(&shape.want), -1);
        }
        admitted
    }

    /// Frees what the pod held on these cards.
    pub fn give(&mut self, shape: &Shape, cards: CardSet) {
        self.change(shape, cards, |card| card.plus(&shape.want), 1);
    }

    fn change(
        &mut self,
        shape: &Shape,
        cards: CardSet,
        after: impl Fn(&CardRoom) -> CardRoom,
        sign: i64,
    ) {
        self.cpu = self.cpu.saturating_add(sign * shape.cpu);
        self.memory = self.memory.saturating_add(sign * shape.memory);
        for index in cards.iter() {
            if let Some(card) = self.cards.get_mut(index) {
                *card = after(card);
            }
        }
        if !cards.is_empty() {
            self.arrange();
        }
    }

    fn arrange(&mut self) {
        let cards = &self.cards;
        self.order.sort_by_key(|index| {
            let card = cards.get(usize::from(*index));
            (card.map(|card| (card.pool, card.room, card.free)), *index)
        });
        self.most = cards
            .iter()
            .fold(Amounts::ZERO, |most, card| most.max_each(&card.free));
    }
}

fn needed(shape: &Shape) -> usize {
    usize::try_from(shape.cards).unwrap_or(usize::MAX)
}

/// Grains of a whole node of `cards` cards.
pub fn whole(cards: usize) -> i64 {
    i64::try_from(cards).map_or(i64::MAX, |cards| cards.saturating_mul(GRAINS))
}
