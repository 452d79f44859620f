//! Pools: kinds of cards. Every policy treats cards of the same model and size alike.

use std::sync::Arc;

use thiserror::Error;

use gpushare_core::amounts::Amounts;

const WORDS: usize = 4;
/// The most distinct (model, size) pairs in one cluster; far more than any fleet has, MIG profiles included.
pub const MAX_POOLS: usize = WORDS * 64;

/// The place of a pool in [`Pools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(u8);

impl PoolId {
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A kind of card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub model: Arc<str>,
    pub capacity: Amounts,
}

/// Pools a request may use. [`PoolSet::ANY`] also holds pools that appear later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolSet([u64; WORDS]);

impl PoolSet {
    pub const NONE: Self = Self([0; WORDS]);
    pub const ANY: Self = Self([u64::MAX; WORDS]);

    #[must_use]
    pub fn with(mut self, pool: PoolId) -> Self {
        if let Some(word) = self.0.get_mut(pool.index() / 64) {
            *word |= 1 << (pool.index() % 64);
        }
        self
    }

    pub fn contains(&self, pool: PoolId) -> bool {
        self.0
            .get(pool.index() / 64)
            .is_some_and(|word| word >> (pool.index() % 64) & 1 == 1)
    }

    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word &= other;
        }
        self
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::NONE
    }
}

impl FromIterator<PoolId> for PoolSet {
    fn from_iter<I: IntoIterator<Item = PoolId>>(pools: I) -> Self {
        pools.into_iter().fold(Self::NONE, Self::with)
    }
}

#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "no room to tell apart another kind of card ({model}): more than {MAX_POOLS} pairs of model and \
     size in one cluster"
)]
pub struct TooManyPools {
    pub model: Arc<str>,
}

/// The pools of a cluster, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct Pools(Vec<Pool>);

impl Pools {
    /// The pool's id, assigned at its first use.
    pub fn intern(&mut self, model: &str, capacity: Amounts) -> Result<PoolId, TooManyPools> {
        let known = self
            .0
            .iter()
            .position(|pool| *pool.model == *model && pool.capacity == capacity);
        let index = known.unwrap_or(self.0.len());
        let id = u8::try_from(index).map_err(|_| TooManyPools {
            model: model.into(),
        })?;
        if known.is_none() {
            self.0.push(Pool {
                model: model.into(),
                capacity,
            });
        }
        Ok(PoolId(id))
    }

    pub fn get(&self, id: PoolId) -> Option<&Pool> {
        self.0.get(id.index())
    }

    pub fn iter(&self) -> impl Iterator<Item = (PoolId, &Pool)> {
        (0..=u8::MAX).map(PoolId).zip(&self.0)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pools for which `admit` holds: how selectors and exclusions by model become a set.
    pub fn matching(&self, admit: impl Fn(&Pool) -> bool) -> PoolSet {
        self.iter()
            .filter(|(_, pool)| admit(pool))
            .map(|(id, _)| id)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_a_model_and_a_size() {
        let mut pools = Pools::default();
        let small = pools.intern("T4", Amounts::of(0, 15)).unwrap();
        let large = pools.intern("T4", Amounts::of(0, 30)).unwrap();
        assert_ne!(small, large);
        assert_eq!(pools.intern("T4", Amounts::of(0, 15)), Ok(small));
        assert_eq!(pools.len(), 2);
    }

    #[test]
    fn the_257th_pool_is_refused_and_the_256th_is_not() {
        let mut pools = Pools::default();
        for size in 0..256 {
            pools.intern("A", Amounts::of(0, size)).unwrap();
        }
        let refused = pools.intern("B", Amounts::ZERO).unwrap_err();
        assert_eq!(&*refused.model, "B");
        assert!(pools.intern("A", Amounts::of(0, 255)).is_ok());
    }

    #[test]
    fn sets_hold_exactly_what_was_put_in() {
        let mut pools = Pools::default();
        let ids: Vec<PoolId> = (0..200)
            .map(|size| pools.intern("A", Amounts::of(0, size)).unwrap())
            .collect();
        let set = pools.matching(|pool| pool.capacity.get(0) % 3 == 0);
        for (size, id) in (0..200).zip(&ids) {
            assert_eq!(set.contains(*id), size % 3 == 0, "{size}");
            assert!(PoolSet::ANY.contains(*id));
        }
        assert!(set.and(&PoolSet::NONE).is_empty());
    }
}
