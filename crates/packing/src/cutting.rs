//! The cutting-stock problem: what a piece of a card is worth when cards are cut well.
//!
//! Computes the duals of the linear program "fewest cards for this demand" by column generation: a
//! simplex basis of cutting patterns and a knapsack that finds a better pattern. Numbers are integers
//! scaled by 2^40. Rounding can only make the prices slightly worse, never a decision wrong: the caller
//! computes what a gap is worth by an exact knapsack over these prices. The number of steps is bounded.

/// 1.0, the value of a whole card.
pub(super) const UNIT: i128 = 1 << 40;
/// A pattern must beat a card by this much to enter the basis.
const WORTHWHILE: i128 = UNIT >> 16;
/// A pivot smaller than this would only amplify rounding.
const SMALLEST_PIVOT: i128 = UNIT >> 14;
/// The most simplex steps; a mix of 50 sizes needs fewer than 150.
const MAX_STEPS: usize = 400;

/// A requested size, and how often it is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// In the card's units; at least one.
    pub(super) size: usize,
    pub(super) demand: i64,
}

/// One row of the basis: how many cards are cut by its pattern, and its row of the inverse.
struct Row {
    cards: i128,
    inverse: Vec<i128>,
}

/// The worth of each piece in [`UNIT`]s, for cards of `capacity` units. Pieces must fit the card.
pub(super) fn prices(pieces: &[Piece], capacity: usize) -> Vec<i128> {
    let mut basis: Vec<Row> = start(pieces, capacity);
    for _ in 0..MAX_STEPS {
        let prices = duals(&basis, pieces.len());
        let Some(pattern) = better_pattern(pieces, &prices, capacity) else {
            break;
        };
        if !pivot(&mut basis, &pattern) {
            break;
        }
    }
    duals(&basis, pieces.len())
        .into_iter()
        .map(|price| price.max(0))
        .collect()
}

/// Every card cut into pieces of one size.
fn start(pieces: &[Piece], capacity: usize) -> Vec<Row> {
    pieces
        .iter()
        .enumerate()
        .map(|(own, piece)| {
            let per_card = i128::try_from(capacity / piece.size.max(1))
                .unwrap_or(1)
                .max(1);
            let inverse = (0..pieces.len())
                .map(|other| if other == own { UNIT / per_card } else { 0 })
                .collect();
            Row {
                cards: i128::from(piece.demand) * UNIT / per_card,
                inverse,
            }
        })
        .collect()
}

fn duals(basis: &[Row], pieces: usize) -> Vec<i128> {
    let mut duals = vec![0; pieces];
    for row in basis {
        for (dual, part) in duals.iter_mut().zip(&row.inverse) {
            *dual += part;
        }
    }
    duals
}

/// The most valuable pattern at these prices, if it is worth more than a card.
fn better_pattern(pieces: &[Piece], prices: &[i128], capacity: usize) -> Option<Vec<i128>> {
    // This is the hot loop of learning. No price exceeds a few cards, so 64 bits are enough.
    let offers: Vec<(usize, i64)> = pieces
        .iter()
        .zip(prices)
        .map(|(piece, price)| (piece.size, i64::try_from(*price).unwrap_or(i64::MAX / 8)))
        .collect();
    let mut best: Vec<(i64, Option<usize>)> = Vec::with_capacity(capacity + 1);
    for room in 0..=capacity {
        // Less room is never better, so start with its value and no piece chosen.
        let less = room.checked_sub(1).and_then(|less| best.get(less));
        let mut value = less.map_or(0, |(value, _)| *value);
        let mut chosen = None;
        for (index, (size, price)) in offers.iter().enumerate() {
            let rest = room.checked_sub(*size).and_then(|rest| best.get(rest));
            if let Some((rest, _)) = rest
                && rest.saturating_add(*price) > value
            {
                value = rest.saturating_add(*price);
                chosen = Some(index);
            }
        }
        best.push((value, chosen));
    }
    let worth = best.last().map_or(0, |(value, _)| *value);
    if i128::from(worth) <= UNIT + WORTHWHILE {
        return None;
    }
    let mut pattern = vec![0; pieces.len()];
    let mut room = capacity;
    while room > 0 {
        let chosen = best.get(room).and_then(|(_, chosen)| *chosen);
        room -= match chosen.and_then(|index| Some((pattern.get_mut(index)?, pieces.get(index)?))) {
            Some((times, piece)) => {
                *times += 1;
                piece.size.clamp(1, room)
            }
            None => 1,
        };
    }
    Some(pattern)
}

/// Brings a pattern into the basis; false when no row can leave.
fn pivot(basis: &mut [Row], pattern: &[i128]) -> bool {
    let direction: Vec<i128> = basis
        .iter()
        .map(|row| {
            row.inverse
                .iter()
                .zip(pattern)
                .map(|(part, times)| part * times)
                .sum()
        })
        .collect();
    let leaving = basis
        .iter()
        .zip(&direction)
        .enumerate()
        .filter(|(_, (_, step))| **step >= SMALLEST_PIVOT)
        .min_by(|(_, (a, step_a)), (_, (b, step_b))| {
            ratio(a.cards, **step_a).cmp(&ratio(b.cards, **step_b))
        })
        .map(|(index, (_, step))| (index, *step));
    let Some((leaving, step)) = leaving else {
        return false;
    };
    let Some(row) = basis.get_mut(leaving) else {
        return false;
    };
    row.cards = row.cards * UNIT / step;
    for part in &mut row.inverse {
        *part = *part * UNIT / step;
    }
    let (cards, inverse) = (row.cards, row.inverse.clone());
    for (index, (row, step)) in basis.iter_mut().zip(direction).enumerate() {
        if index == leaving || step == 0 {
            continue;
        }
        row.cards -= cards * step / UNIT;
        for (part, entering) in row.inverse.iter_mut().zip(&inverse) {
            *part -= entering * step / UNIT;
        }
    }
    true
}

fn ratio(cards: i128, step: i128) -> i128 {
    cards.max(0) * UNIT / step
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Prices in thousandths of a card.
    fn check(capacity: usize, pieces: &[(usize, i64)], expected: &[i128]) {
        let pieces: Vec<Piece> = pieces
            .iter()
            .map(|(size, demand)| Piece {
                size: *size,
                demand: *demand,
            })
            .collect();
        let prices: Vec<i128> = prices(&pieces, capacity)
            .into_iter()
            .map(|price| (price * 1_000 + UNIT / 2) / UNIT)
            .collect();
        assert_eq!(prices, expected, "{pieces:?}");
    }

    #[test]
    fn prices_are_those_of_the_linear_program() {
        check(100, &[(50, 10)], &[500]);
        // Two pieces of 60 never share a card, so each costs a whole card and the 40 beside it is free ...
        check(100, &[(40, 1), (60, 10)], &[0, 1000]);
        // ... unless there are more pieces of 40 than gaps beside pieces of 60.
        check(100, &[(40, 100), (60, 10)], &[500, 500]);
        check(100, &[(30, 50), (35, 50)], &[333, 333]);
        check(3, &[(1, 9), (2, 1)], &[333, 667]);
    }

    #[test]
    fn no_pieces_have_no_prices() {
        check(100, &[], &[]);
    }

    #[test]
    fn no_pattern_is_worth_more_than_a_card() {
        let pieces: Vec<Piece> = (1..60)
            .map(|size| Piece {
                size,
                demand: i64::try_from(size * 7_919 % 101).unwrap(),
            })
            .collect();
        let prices = prices(&pieces, 100);
        assert_eq!(better_pattern(&pieces, &prices, 100), None);
    }
}
