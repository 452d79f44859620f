//! Stranded room: free cards on nodes without enough CPU or host memory to use them.
//!
//! On average, the mix needs a certain amount of CPU and memory for each grain. A node whose CPU
//! suffices for fewer grains than it has free will strand the rest. The needed CPU is taken at three
//! levels around the average, because one unusual pod is enough to unbalance a node that is exactly in
//! proportion.
//!
//! This matters where pods stay. Where they come and go, a node returns to proportion by itself, and
//! keeping all nodes in proportion would put pods on every node, so that pods that need a whole node
//! find none. Hence the weight by [turnover](super::turnover).

use super::mix::Mix;
use super::pool::Pools;
use super::stock::Stock;

/// Fixed-point scale for grains per unit of CPU or memory.
const SCALE: i64 = 1 << 20;
/// The three levels of CPU needed for a grain, in tenths of the average.
const LEVELS: [i64; 3] = [6, 10, 14];
const LEVEL_COUNT: i64 = 3;

/// How many grains a unit of CPU or memory serves, in [`SCALE`]ths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Strand {
    per_cpu: [i64; 3],
    per_memory: i64,
}

impl Default for Strand {
    /// As long as nothing is known, CPU and memory serve any number of cards.
    fn default() -> Self {
        Self {
            per_cpu: [i64::MAX; 3],
            per_memory: i64::MAX,
        }
    }
}

impl Strand {
    pub(super) fn learn(mix: &Mix, pools: &Pools, stock: &Stock) -> Self {
        let (mut cpu, mut memory, mut grains) = (0_i128, 0_i128, 0_i128);
        for (shape, seen) in mix.iter().filter(|(shape, _)| shape.cards > 0) {
            cpu += i128::from(shape.cpu) * i128::from(seen.count);
            memory += i128::from(seen.memory);
            grains += i128::from(stock.demand(pools, shape)) * i128::from(seen.count);
        }
        Self {
            per_cpu: LEVELS.map(|level| serves(grains * 10, cpu * i128::from(level))),
            per_memory: serves(grains, memory),
        }
    }

    /// Stranded grains: those that lack CPU, averaged over the levels, plus those that lack memory.
    pub(super) fn grains(&self, room: i64, cpu: i64, memory: i64) -> i64 {
        let short = |served: i64| (room - served).max(0);
        let by_cpu: i64 = self
            .per_cpu
            .iter()
            .map(|per_cpu| short(served(cpu, *per_cpu)))
            .sum();
        by_cpu / LEVEL_COUNT + short(served(memory, self.per_memory))
    }
}

fn serves(grains: i128, units: i128) -> i64 {
    if units <= 0 {
        return i64::MAX;
    }
    i64::try_from(grains * i128::from(SCALE) / units).unwrap_or(i64::MAX)
}

/// Grains that this much CPU or memory serves.
fn served(units: i64, per_unit: i64) -> i64 {
    let grains = i128::from(units.max(0)) * i128::from(per_unit) / i128::from(SCALE);
    i64::try_from(grains).unwrap_or(i64::MAX)
}
