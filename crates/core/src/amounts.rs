//! Device classes and amounts: what a kind of device can be divided into.

use std::collections::BTreeMap;
use std::sync::Arc;

/// No class needs more dimensions. A fixed size keeps amounts `Copy` and the hot path free of
/// allocations.
pub const MAX_DIMENSIONS: usize = 4;

/// A whole number for each dimension of a class, in the class's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amounts([u64; MAX_DIMENSIONS]);

impl Amounts {
    pub const ZERO: Self = Self([0; MAX_DIMENSIONS]);

    pub fn of(dimension: usize, amount: u64) -> Self {
        Self::ZERO.with(dimension, amount)
    }

    #[must_use]
    pub fn with(mut self, dimension: usize, amount: u64) -> Self {
        if let Some(slot) = self.0.get_mut(dimension) {
            *slot = amount;
        }
        self
    }

    pub fn get(&self, dimension: usize) -> u64 {
        self.0.get(dimension).copied().unwrap_or(0)
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|amount| *amount == 0)
    }

    /// The sum, or `None` if a dimension would overflow.
    pub fn checked_add(&self, other: &Self) -> Option<Self> {
        let mut sum = *self;
        for (into, from) in sum.0.iter_mut().zip(other.0) {
            *into = into.checked_add(from)?;
        }
        Some(sum)
    }

    /// The sum, saturating at the largest number: an amount that is too large stays too large for every card.
    #[must_use]
    pub fn saturating_add(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_add)
    }

    #[must_use]
    pub fn saturating_sub(&self, other: &Self) -> Self {
        self.zip(other, u64::saturating_sub)
    }

    #[must_use]
    pub fn max_each(&self, other: &Self) -> Self {
        self.zip(other, u64::max)
    }

    /// Capped at `limit` in each dimension; a limit of zero means no limit.
    #[must_use]
    pub fn capped(&self, limit: &Self) -> Self {
        self.zip(limit, |amount, limit| match limit {
            0 => amount,
            limit => amount.min(limit),
        })
    }

    /// This many percent of a card's capacity in each dimension, rounded down.
    #[must_use]
    pub fn percent_of(&self, capacity: &Self) -> Self {
        self.zip(capacity, |percent, capacity| {
            let percent = percent.min(100);
            // Computed in two parts, because the product could overflow.
            capacity / 100 * percent + capacity % 100 * percent / 100
        })
    }

    /// True when every dimension is at most that of `room`.
    pub fn fits_in(&self, room: &Self) -> bool {
        self.0
            .iter()
            .zip(room.0)
            .all(|(amount, room)| *amount <= room)
    }

    fn zip(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        let mut result = *self;
        for (into, from) in result.0.iter_mut().zip(other.0) {
            *into = combine(*into, from);
        }
        result
    }
}

/// One way in which a device can be divided, with its unit for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    pub name: Arc<str>,
    pub unit: Arc<str>,
}

/// A kind of device and the dimensions in which it is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceClass {
    pub name: Arc<str>,
    dimensions: Vec<Dimension>,
}

impl DeviceClass {
    /// A class of `(dimension, unit)` pairs; `None` if there are more than [`MAX_DIMENSIONS`].
    pub fn new(name: &str, dimensions: &[(&str, &str)]) -> Option<Self> {
        (dimensions.len() <= MAX_DIMENSIONS).then(|| Self {
            name: name.into(),
            dimensions: dimensions
                .iter()
                .map(|(name, unit)| Dimension {
                    name: (*name).into(),
                    unit: (*unit).into(),
                })
                .collect(),
        })
    }

    pub fn dimension(&self, index: usize) -> Option<&Dimension> {
        self.dimensions.get(index)
    }

    /// Amounts by dimension name, for people and annotations; zeros are left out.
    pub fn named(&self, amounts: &Amounts) -> BTreeMap<String, u64> {
        self.dimensions
            .iter()
            .enumerate()
            .map(|(index, dimension)| (dimension.name.to_string(), amounts.get(index)))
            .filter(|(_, amount)| *amount > 0)
            .collect()
    }

    /// The reverse of [`Self::named`]; the error is a name that this class does not have.
    pub fn amounts(&self, named: &BTreeMap<String, u64>) -> Result<Amounts, String> {
        let mut amounts = Amounts::ZERO;
        for (name, amount) in named {
            let index = self
                .dimensions
                .iter()
                .position(|dimension| *dimension.name == **name)
                .ok_or_else(|| name.clone())?;
            amounts = amounts.with(index, *amount);
        }
        Ok(amounts)
    }

    /// The dimensions in which `needed` exceeds `room`, with how much is missing.
    pub fn shortage(&self, needed: &Amounts, room: &Amounts) -> Vec<(&Dimension, u64)> {
        let missing = needed.saturating_sub(room);
        self.dimensions
            .iter()
            .enumerate()
            .map(|(index, dimension)| (dimension, missing.get(index)))
            .filter(|(_, missing)| *missing > 0)
            .collect()
    }
}

/// The device classes of a cluster. They come from configuration; the same code shares all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes(Arc<[DeviceClass]>);

impl Classes {
    pub fn get(&self, name: &str) -> Option<&DeviceClass> {
        self.0.iter().find(|class| *class.name == *name)
    }

    pub fn iter(&self) -> impl Iterator<Item = &DeviceClass> {
        self.0.iter()
    }
}

impl FromIterator<DeviceClass> for Classes {
    fn from_iter<I: IntoIterator<Item = DeviceClass>>(classes: I) -> Self {
        Self(classes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> DeviceClass {
        DeviceClass::new("nic", &[("bandwidth", "Mbit/s"), ("queues", "")]).unwrap()
    }

    #[test]
    fn named_amounts_survive_a_round_trip() {
        let amounts = Amounts::of(0, 400).with(1, 2);
        assert_eq!(class().amounts(&class().named(&amounts)), Ok(amounts));
    }

    #[test]
    fn an_unknown_dimension_is_named() {
        let named = BTreeMap::from([("colour".to_owned(), 1)]);
        assert_eq!(class().amounts(&named), Err("colour".to_owned()));
    }

    #[test]
    fn a_sum_that_overflows_is_nothing() {
        assert_eq!(
            Amounts::of(1, u64::MAX).checked_add(&Amounts::of(1, 1)),
            None
        );
    }

    #[test]
    fn percents_are_of_each_cards_own_size_and_never_more_than_all_of_it() {
        let half = Amounts::of(0, 50).with(1, 300);
        let card = Amounts::of(0, 16_385).with(1, u64::MAX);
        assert_eq!(
            half.percent_of(&card),
            Amounts::of(0, 8_192).with(1, u64::MAX)
        );
    }

    #[test]
    fn shortage_lists_only_what_is_missing() {
        let class = class();
        let short = class.shortage(
            &Amounts::of(0, 10).with(1, 1),
            &Amounts::of(0, 4).with(1, 3),
        );
        assert_eq!(short.len(), 1);
        assert_eq!((&*short[0].0.name, short[0].1), ("bandwidth", 6));
    }
}
