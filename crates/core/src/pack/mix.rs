//! The mix: which shapes the cluster is asked for, learnt from the requests themselves.
//!
//! Old requests are forgotten: when as much has been asked for as the cluster has cards (times
//! [`HALF_LIFE`]), what came before counts half. The clock is demand, not time, so a busy cluster
//! learns as many requests as a quiet one before it forgets, and the core needs no clock.

use std::collections::BTreeMap;

use super::shape::Shape;

/// One request, so that fractions of it survive forgetting.
pub(super) const ONE: i64 = 1 << 20;
/// Cluster sizes of demand after which a request counts half.
pub(super) const HALF_LIFE: i64 = 2;
/// A request that counts less than this is gone.
const FORGOTTEN: i64 = ONE / 256;
/// Distinct shapes kept; the rarest go first.
const MAX_SHAPES: usize = 4_096;
/// ln 2 in 65,536ths: `1 - x ln 2` is `2^-x` for small x.
const LN_2: i64 = 45_426;

/// How often a shape was asked for, in [`ONE`]ths of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) count: i64,
    /// Host memory of these requests together, in MiB times [`ONE`].
    pub(super) memory: i128,
}

/// Shapes and how often each was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Mix {
    shapes: BTreeMap<Shape, Seen>,
}

impl Mix {
    /// Counts one request. Host memory is averaged: it would split shapes that pack alike.
    pub(super) fn observe(&mut self, shape: &Shape) {
        let key = Shape {
            memory: 0,
            ..*shape
        };
        let seen = self.shapes.entry(key).or_default();
        seen.count = seen.count.saturating_add(ONE);
        seen.memory = seen
            .memory
            .saturating_add(i128::from(shape.memory) * i128::from(ONE));
    }

    /// Forgets as much as `demand` new grains make old in a cluster of `capacity` grains.
    pub(super) fn forget(&mut self, demand: i64, capacity: i64) {
        let half_life = i128::from(capacity.max(1)) * i128::from(HALF_LIFE);
        let lost = (i128::from(demand.max(0)) * i128::from(LN_2) / half_life).min(1 << 15);
        if lost == 0 {
            return;
        }
        self.shapes.retain(|_, seen| {
            let part = (i128::from(seen.count) * lost) >> 16;
            seen.count -= i64::try_from(part).unwrap_or(seen.count);
            seen.memory -= seen.memory.saturating_mul(lost) >> 16;
            seen.count >= FORGOTTEN
        });
        self.drop_rarest();
    }

    fn drop_rarest(&mut self) {
        if self.shapes.len() <= MAX_SHAPES {
            return;
        }
        let mut counts: Vec<i64> = self.shapes.values().map(|seen| seen.count).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let least = counts.get(MAX_SHAPES).copied().unwrap_or(0);
        self.shapes.retain(|_, seen| seen.count > least);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Shape, &Seen)> {
        self.shapes.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cpu: i64) -> Shape {
        Shape::without_cards(cpu, 0)
    }

    fn count(mix: &Mix, shape: &Shape) -> i64 {
        mix.iter()
            .find(|(seen, _)| *seen == shape)
            .map_or(0, |(_, seen)| seen.count)
    }

    #[test]
    fn one_half_life_of_demand_halves_what_was_seen() {
        let mut mix = Mix::default();
        mix.observe(&cpu(1));
        for _ in 0..1_000 {
            mix.forget(HALF_LIFE * 1_000, 1_000_000);
        }
        let half = count(&mix, &cpu(1));
        assert!((half - ONE / 2).abs() < ONE / 100, "{half}");
    }

    #[test]
    fn what_nobody_asks_for_any_more_is_gone() {
        let mut mix = Mix::default();
        mix.observe(&cpu(1));
        for _ in 0..64 {
            mix.forget(1_000_000, 1_000_000);
        }
        assert_eq!(mix.iter().count(), 0);
    }

    #[test]
    fn shapes_differ_by_all_but_their_memory() {
        let mut mix = Mix::default();
        mix.observe(&Shape::without_cards(1, 10));
        mix.observe(&Shape::without_cards(1, 30));
        let (_, seen) = mix.iter().next().unwrap();
        assert_eq!((seen.count, seen.memory), (2 * ONE, 40 * i128::from(ONE)));
    }

    #[test]
    fn the_number_of_shapes_is_bounded() {
        let mut mix = Mix::default();
        for shape in 0..10_000 {
            mix.observe(&cpu(shape));
            mix.observe(&cpu(7));
        }
        mix.forget(10_000, 1_000_000);
        assert!(mix.iter().count() <= MAX_SHAPES);
        assert!(count(&mix, &cpu(7)) > 9_000 * ONE);
    }
}
