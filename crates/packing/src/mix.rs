//! The mix: which shapes pods ask for, learnt from their requests.

use std::collections::BTreeMap;

use super::fading::FadingFactor;
use super::shape::Shape;

/// One request, scaled so that faded requests can count as fractions.
pub(super) const ONE: i64 = 1 << 20;
/// A shape that counts less than this is dropped.
const FORGOTTEN: i64 = ONE / 256;
/// Distinct shapes kept; the rarest are dropped first.
const MAX_SHAPES: usize = 4_096;

/// How often a shape was asked for, in [`ONE`]ths of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShapeCount {
    pub(super) count: i64,
    /// Host memory of these requests together, in MiB times [`ONE`].
    pub(super) memory: i64,
}

/// Shapes and how often each was asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Mix {
    shapes: BTreeMap<Shape, ShapeCount>,
}

impl Mix {
    /// Counts one request. Host memory is averaged, because otherwise it would split shapes that pack alike.
    pub(super) fn observe(&mut self, shape: &Shape) {
        let key = Shape {
            memory: 0,
            ..*shape
        };
        let seen = self.shapes.entry(key).or_default();
        seen.count = seen.count.saturating_add(ONE);
        let memory = shape.memory.saturating_mul(ONE);
        seen.memory = seen.memory.saturating_add(memory);
    }

    pub(super) fn forget(&mut self, fading: FadingFactor) {
        self.shapes.retain(|_, seen| {
            seen.count = fading.of(seen.count);
            seen.memory = fading.of(seen.memory);
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

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Shape, &ShapeCount)> {
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
    fn what_nobody_asks_for_any_more_is_gone() {
        let mut mix = Mix::default();
        mix.observe(&cpu(1));
        for _ in 0..16 {
            mix.forget(FadingFactor::HALF);
        }
        assert_eq!(mix.iter().count(), 0);
    }

    #[test]
    fn shapes_differ_by_all_but_their_memory() {
        let mut mix = Mix::default();
        mix.observe(&Shape::without_cards(1, 10));
        mix.observe(&Shape::without_cards(1, 30));
        let (_, seen) = mix.iter().next().unwrap();
        assert_eq!((seen.count, seen.memory), (2 * ONE, 40 * ONE));
    }

    #[test]
    fn the_number_of_shapes_is_bounded() {
        let mut mix = Mix::default();
        for shape in 0..10_000 {
            mix.observe(&cpu(shape));
            mix.observe(&cpu(7));
        }
        mix.forget(FadingFactor::HALF);
        assert!(mix.iter().count() <= MAX_SHAPES);
        assert!(count(&mix, &cpu(7)) > 4_000 * ONE);
    }
}
