//! The stock: how many grains of each pool the cluster has, and how many are free.

use super::grain::GRAINS;
use super::pool::{PoolId, PoolSet, Pools};
use super::shape::Shape;
use super::space::Space;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) capacity: i64,
    pub(super) free: i64,
}

/// Levels by pool, updated as nodes change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock(Vec<Level>);

impl Stock {
    pub(super) fn add(&mut self, space: &Space) {
        self.change(space, 1);
    }

    pub(super) fn remove(&mut self, space: &Space) {
        self.change(space, -1);
    }

    fn change(&mut self, space: &Space, sign: i64) {
        for card in space.cards() {
            if self.0.len() <= card.pool.index() {
                self.0.resize(card.pool.index() + 1, Level::default());
            }
            if let Some(level) = self.0.get_mut(card.pool.index()) {
                level.capacity += sign * GRAINS;
                level.free += sign * card.room();
            }
        }
    }

    pub(super) fn level(&self, pool: PoolId) -> Level {
        self.0.get(pool.index()).copied().unwrap_or_default()
    }

    pub(super) fn total(&self) -> Level {
        self.0.iter().fold(Level::default(), |sum, level| Level {
            capacity: sum.capacity + level.capacity,
            free: sum.free + level.free,
        })
    }

    /// The pools in stock that can serve the shape, by its selectors and by its size.
    pub(super) fn serving(&self, pools: &Pools, shape: &Shape) -> PoolSet {
        pools
            .iter()
            .filter(|(id, pool)| {
                shape.pools.contains(*id)
                    && self.level(*id).capacity > 0
                    && shape.size_on(pool).is_some()
            })
            .map(|(id, _)| id)
            .collect()
    }

    /// All pools in stock.
    pub(super) fn present(&self, pools: &Pools) -> PoolSet {
        pools
            .iter()
            .map(|(id, _)| id)
            .filter(|id| self.level(*id).capacity > 0)
            .collect()
    }

    /// The grains that the shape takes on all its cards together, averaged over the pools that can serve it.
    pub(super) fn demand(&self, pools: &Pools, shape: &Shape) -> i64 {
        if shape.cards == 0 {
            return 0;
        }
        let (mut sum, mut capacity) = (0_i128, 0_i128);
        for (id, pool) in pools.iter().filter(|(id, _)| shape.pools.contains(*id)) {
            if let Some(size) = shape.size_on(pool) {
                let weight = i128::from(self.level(id).capacity);
                sum += weight * i128::from(size);
                capacity += weight;
            }
        }
        let size = if capacity > 0 { sum / capacity } else { 0 };
        i64::try_from(size * i128::from(shape.cards)).unwrap_or(0)
    }
}
