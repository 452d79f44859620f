//! Card prices: what a gap on a card is worth, and what a cut loses.
//!
//! A gap is worth the highest total price of requested pieces that fit into it. Cutting a gap loses the
//! difference between its worth before and after; the cut that loses least keeps cards on patterns that
//! waste nothing.

use super::cutting::{self, Piece, UNIT};
use super::grain::GRAINS;

/// A whole card.
pub(super) const CARD: i64 = 1_000_000;
/// Sizes considered; those with the least demand are ignored.
const MAX_SIZES: usize = 32;
/// If there are more sizes than this, and their common unit is smaller than [`COARSE`] grains, they are
/// rounded up to it, so that learning from many odd sizes takes only milliseconds.
const EXACT_SIZES: usize = 16;
/// In grains; halves to eighths of a card stay exact.
const COARSE: i64 = 5;

/// The worth of every gap on cards of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Prices {
    /// The step between two entries of `worth` in grains: the greatest common divisor of all sizes.
    unit: i64,
    /// In [`CARD`]ths; one entry for each number of units.
    worth: Vec<i64>,
    whole: i64,
}

impl Prices {
    /// Prices for pieces of `(grains, demand)`.
    pub(super) fn learn(mut demand: Vec<(i64, i64)>) -> Self {
        demand.retain(|(size, demand)| (1..=GRAINS).contains(size) && *demand > 0);
        demand.sort_by_key(|(size, demand)| (-demand, *size));
        demand.truncate(MAX_SIZES);
        if demand.len() > EXACT_SIZES && common_unit(&demand) < COARSE {
            for (size, _) in &mut demand {
                *size = (*size + COARSE - 1) / COARSE * COARSE;
            }
        }
        demand.sort_unstable();
        demand.dedup_by(|(size, demand), (kept, sum)| {
            let same = size == kept;
            *sum += if same { *demand } else { 0 };
            same
        });
        let unit = common_unit(&demand);
        let units = |grains: i64| usize::try_from(grains / unit).unwrap_or(0);
        let pieces: Vec<Piece> = demand
            .iter()
            .map(|(size, demand)| Piece {
                size: units(*size),
                demand: *demand,
            })
            .collect();
        let prices: Vec<i64> = cutting::prices(&pieces, units(GRAINS))
            .into_iter()
            .map(|price| {
                i64::try_from(price * i128::from(CARD) / UNIT)
                    .unwrap_or(CARD)
                    .min(CARD)
            })
            .collect();
        let worth = knapsack(&pieces, &prices, units(GRAINS));
        let whole = worth.last().copied().unwrap_or(0).max(CARD);
        Self { unit, worth, whole }
    }

    /// The highest total price of requested pieces that fit into a gap.
    pub(super) fn worth(&self, room: i64) -> i64 {
        if room >= GRAINS {
            return self.whole;
        }
        let units = usize::try_from(room / self.unit).unwrap_or(0);
        self.worth.get(units).copied().unwrap_or(0)
    }

    /// The worth lost by cutting a gap from `before` to `after`.
    pub(super) fn loss(&self, before: i64, after: i64) -> i64 {
        self.worth(before) - self.worth(after)
    }

    /// The least worth that cutting a piece of this size loses, over all gaps.
    pub(super) fn least_loss(&self, size: i64) -> i64 {
        let steps = (GRAINS - size).max(0) / self.unit;
        (0..=steps)
            .map(|step| self.loss(step * self.unit + size, step * self.unit))
            .chain([self.loss(GRAINS, GRAINS - size)])
            .min()
            .unwrap_or(0)
    }
}

fn knapsack(pieces: &[Piece], prices: &[i64], capacity: usize) -> Vec<i64> {
    let mut worth: Vec<i64> = Vec::with_capacity(capacity + 1);
    for room in 0..=capacity {
        let less = room
            .checked_sub(1)
            .and_then(|less| worth.get(less))
            .copied();
        let best = pieces
            .iter()
            .zip(prices)
            .filter_map(|(piece, price)| {
                let rest = worth.get(room.checked_sub(piece.size)?)?;
                Some(rest + price)
            })
            .chain(less)
            .max();
        worth.push(best.unwrap_or(0));
    }
    worth
}

fn common_unit(demand: &[(i64, i64)]) -> i64 {
    let sizes = demand.iter().map(|(size, _)| *size);
    sizes.fold(0, greatest_common_divisor).max(1)
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: i64 = GRAINS / 2;

    #[test]
    fn a_cut_that_leaves_a_useful_gap_loses_nothing() {
        let prices = Prices::learn(vec![(HALF, 10), (GRAINS / 4, 10)]);
        assert_eq!(prices.loss(GRAINS, HALF), prices.least_loss(HALF));
        let third = GRAINS / 3;
        assert!(prices.loss(GRAINS, GRAINS - third) > prices.least_loss(third));
    }

    #[test]
    fn without_demand_only_whole_cards_have_worth() {
        let prices = Prices::learn(Vec::new());
        assert_eq!(prices.loss(GRAINS, GRAINS - 1), CARD);
        assert_eq!(prices.loss(GRAINS - 1, 0), 0);
        assert_eq!(prices.least_loss(1), 0);
    }

    #[test]
    fn many_odd_sizes_are_learnt_as_if_slightly_larger() {
        let sizes = |first: i64| (0..20).map(|step| (first + 100 * step, 5)).collect();
        assert_eq!(Prices::learn(sizes(997)), Prices::learn(sizes(1_000)));
        let few = |first: i64| vec![(first, 5), (first + 500, 5)];
        assert_ne!(Prices::learn(few(997)), Prices::learn(few(1_000)));
    }

    #[test]
    fn worth_never_falls_with_room_and_no_cut_loses_less_than_the_least() {
        let demand = (1..40).map(|n| (n * 97 % GRAINS + 1, n)).collect();
        let prices = Prices::learn(demand);
        assert!((1..=GRAINS).all(|room| prices.worth(room - 1) <= prices.worth(room)));
        for size in [1, 97, 98, 500, GRAINS] {
            let least = prices.least_loss(size);
            assert!((size..=GRAINS).all(|room| prices.loss(room, room - size) >= least));
        }
    }
}
