//! Scarcity: how much of a pool's free room will be needed by pods that can run nowhere else.
//!
//! The demand for each set of pools is taken from the mix and scaled to what is free. Sets with the
//! least free room are served first, each by filling its least loaded pools first, like water. Pods that
//! could run elsewhere pay for using a pool that others depend on.

use std::collections::BTreeMap;

use super::mix::{Mix, ONE};
use super::pool::{PoolId, PoolSet, Pools};
use super::stock::Stock;

/// A pool whose free room is exactly what its dependants will need.
pub(super) const FULL: i64 = 1 << 20;
/// Scarcity is capped at one and a half.
const MOST: i64 = FULL * 3 / 2;
/// Before any request was seen, each pool is assumed to have a dependent demand of one in this many of
/// the cluster's grains, so that the first pods go to the largest pools.
const IMAGINED: i64 = 2_048;

/// Demand by the set of pools that can serve it.
#[derive(Clone, Debug, Default)]
pub(super) struct Dependence {
    by_set: BTreeMap<PoolSet, i128>,
    total: i128,
    /// The set of all pools; its demand depends on no particular pool.
    everything: Option<PoolSet>,
}

impl Dependence {
    pub(super) fn learn(mix: &Mix, pools: &Pools, stock: &Stock) -> Self {
        let mut learnt = Self {
            everything: Some(stock.present(pools)),
            ..Self::default()
        };
        let imagined = i128::from(stock.total().capacity) * i128::from(ONE) / i128::from(IMAGINED);
        for (id, _) in pools.iter().filter(|(id, _)| stock.level(*id).capacity > 0) {
            learnt.add(PoolSet::NONE.with(id), imagined);
        }
        for (shape, seen) in mix.iter().filter(|(shape, _)| shape.cards > 0) {
            let demand = i128::from(stock.demand(pools, shape)) * i128::from(seen.count);
            learnt.add(stock.serving(pools, shape), demand);
        }
        learnt
    }

    fn add(&mut self, set: PoolSet, demand: i128) {
        self.total += demand;
        *self.by_set.entry(set).or_default() += demand;
    }

    /// Scarcity of each pool in [`FULL`]ths, by pool index, for what is free now.
    pub(super) fn scarcity(&self, pools: &Pools, stock: &Stock) -> Vec<i64> {
        let free_in = |set: &PoolSet| -> i64 {
            pools
                .iter()
                .filter(|(id, _)| set.contains(*id))
                .map(|(id, _)| stock.level(id).free)
                .sum()
        };
        let mut sets: Vec<(i64, &PoolSet, i64)> = self
            .by_set
            .iter()
            .filter(|(set, _)| Some(**set) != self.everything && !set.is_empty())
            .map(|(set, demand)| {
                let wanted = demand * i128::from(stock.total().free) / self.total.max(1);
                (free_in(set), set, i64::try_from(wanted).unwrap_or(0))
            })
            .collect();
        sets.sort_unstable();
        let mut load = vec![0_i64; pools.len()];
        for (_, set, wanted) in sets {
            pour(wanted, set, pools, stock, &mut load);
        }
        pools
            .iter()
            .zip(load)
            .map(|((id, _), load)| level(load, stock.level(id).free).min(MOST))
            .collect()
    }
}

fn level(load: i64, free: i64) -> i64 {
    if load <= 0 {
        return 0;
    }
    let level = i128::from(load) * i128::from(FULL) / i128::from(free.max(1));
    i64::try_from(level).unwrap_or(i64::MAX)
}

/// Spreads `wanted` over the pools of a set so that the lowest levels rise first.
fn pour(wanted: i64, set: &PoolSet, pools: &Pools, stock: &Stock, load: &mut [i64]) {
    let mut members: Vec<(i64, PoolId)> = pools
        .iter()
        .map(|(id, _)| id)
        .filter(|id| set.contains(*id) && stock.level(*id).free > 0)
        .map(|id| {
            let load = load.get(id.index()).copied().unwrap_or(0);
            (level(load, stock.level(id).free), id)
        })
        .collect();
    members.sort_unstable();
    let (mut free, mut filled, mut surface) = (0_i128, 0_i128, 0_i128);
    // Find the surface at which the first k pools are under water: it must reach the k-th but not the next.
    for (member, (_, id)) in members.iter().enumerate() {
        free += i128::from(stock.level(*id).free);
        filled += i128::from(load.get(id.index()).copied().unwrap_or(0));
        surface = (filled + i128::from(wanted)) * i128::from(FULL) / free.max(1);
        let next = members
            .get(member + 1)
            .map(|(bottom, _)| i128::from(*bottom));
        if next.is_none_or(|next| surface <= next) {
            break;
        }
    }
    for (_, id) in members {
        let depth = surface * i128::from(stock.level(id).free) / i128::from(FULL);
        if let Some(load) = load.get_mut(id.index()) {
            *load = (*load).max(i64::try_from(depth).unwrap_or(i64::MAX));
        }
    }
}
