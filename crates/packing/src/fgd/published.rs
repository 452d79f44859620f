//! Rounding as in the published simulator.
//!
//! The simulator adds fragments in double precision, one kind after the other. A pod without cards
//! often moves typical pods from one kind of fragment to another without changing the sum. Rounding
//! then makes about every fifth of these changes slightly negative, which costs the node a point, and
//! another node is chosen. The published averages contain this noise (on some traces 0.02 points). To
//! reproduce them, we make the same additions, each rounded to 53 significant bits.

use super::super::grain::GRAINS;
use super::super::shape::Shape;
use super::super::space::{CardRoom, Space};

/// Numbers are kept in units of 2^-80.
const BITS: u32 = 80;
const SIGNIFICANT: u32 = 53;
/// The least loss that changes the published sigmoid: 1000 * 1.5 * 2^-52.
const LEAST_LOSS: u128 = 1_500 << (BITS - 52);
/// Kinds of fragment, in the order in which they are added up, by why a typical pod cannot use the
/// room: it lacks both cards and CPU, lacks cards, lacks CPU, needs no cards, needs no cards and lacks
/// CPU, or may not run on this node.
const KINDS: usize = 6;

/// Typical pods with their frequencies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published(Vec<(Shape, u128)>);

impl Published {
    /// `typical` are the typical pods in order with how often each occurs, `all` is the number of all pods.
    pub(crate) fn new(typical: &[(Shape, i64)], all: i64) -> Self {
        let number = |count: i64| u128::from(count.unsigned_abs());
        let covered = typical.iter().map(|(_, count)| number(*count)).sum();
        let part = quotient(covered, number(all));
        Self(
            typical
                .iter()
                .map(|(shape, count)| {
                    (
                        *shape,
                        quotient(quotient(number(*count), number(all)), part),
                    )
                })
                .collect(),
        )
    }

    /// Whether rounding makes a decrease of the node's free CPU look like a loss although the total
    /// fragment does not change.
    pub(crate) fn loses_by_rounding(&self, space: &Space, before: i64, after: i64) -> bool {
        let crosses = |shape: &Shape| after < shape.cpu && shape.cpu <= before;
        space.room() > 0
            && self.0.iter().any(|(shape, _)| crosses(shape))
            && self.fragment(space, after) >= self.fragment(space, before) + LEAST_LOSS
    }

    /// The node's fragment in thousandths of a card.
    fn fragment(&self, space: &Space, cpu: i64) -> u128 {
        let mut kinds = [0_u128; KINDS];
        let total = thousandths(space.cards().iter().map(CardRoom::room));
        for (shape, frequency) in &self.0 {
            let suffices = shape.cpu <= cpu;
            let admitting = |card: &&_| card_admits(shape, card);
            let cards = space.cards().iter().filter(admitting).count();
            let enough = u32::try_from(cards).is_ok_and(|cards| cards >= shape.cards);
            let elsewhere = !space
                .cards()
                .iter()
                .any(|card| shape.pools.contains(card.pool));
            let (kind, amount) = match (shape.cards, elsewhere, enough, suffices) {
                (0, _, _, true) => (3, total),
                (0, _, _, false) => (4, total),
                (_, true, _, _) => (5, total),
                (_, _, true, true) => {
                    let usable = space.cards().iter().filter(admitting).map(CardRoom::room);
                    (1, total - thousandths(usable))
                }
                (_, _, true, false) => (2, total),
                (_, _, false, true) => (1, total),
                (_, _, false, false) => (0, total),
            };
            if let Some(sum) = kinds.get_mut(kind) {
                *sum = rounded(*sum + rounded(frequency * amount, false), false);
            }
        }
        kinds.iter().fold(0, |sum, kind| rounded(sum + kind, false))
    }
}

fn card_admits(shape: &Shape, card: &CardRoom) -> bool {
    shape.pools.contains(card.pool) && card.admits(&shape.want)
}

fn thousandths(rooms: impl Iterator<Item = i64>) -> u128 {
    rooms
        .map(|room| {
            u128::from(
                (room * 1_000)
                    .unsigned_abs()
                    .div_ceil(GRAINS.unsigned_abs()),
            )
        })
        .sum()
}

/// Rounds to 53 significant bits, halves to even. `more` says that a remainder below the last bit was cut off.
fn rounded(number: u128, more: bool) -> u128 {
    let excess = (u128::BITS - number.leading_zeros()).saturating_sub(SIGNIFICANT);
    if excess == 0 {
        return number;
    }
    let (kept, cut, half) = (
        number >> excess,
        number & ((1 << excess) - 1),
        1 << (excess - 1),
    );
    let up = cut > half || cut == half && (more || kept & 1 == 1);
    (kept + u128::from(up)) << excess
}

/// `a / b` in units of 2^-80, rounded; both in the same unit, with at most 53 significant bits.
fn quotient(a: u128, b: u128) -> u128 {
    if a == 0 || b == 0 {
        return 0;
    }
    // The divisor without trailing zeros has at most 53 bits, the dividend all 128: enough bits of the quotient to
    // round.
    let (shift, zeros) = (a.leading_zeros(), b.trailing_zeros());
    let (dividend, divisor) = (a << shift, b >> zeros);
    let quotient = rounded(dividend / divisor, dividend % divisor != 0);
    // a / b is the quotient divided by 2^(shift + zeros); the result is 2^80 times that.
    let (up, down) = (BITS, shift + zeros);
    if up >= down {
        quotient << (up - down)
    } else {
        quotient >> (down - up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_that_of_doubles() {
        let exact = |double: f64| {
            let bits = double.to_bits();
            let exponent = u32::try_from(bits >> 52 & 0x7ff).unwrap();
            u128::from(bits & ((1 << 52) - 1) | 1 << 52) << (exponent + BITS - 1_075)
        };
        for (a, b) in [
            (1_u32, 3_u32),
            (2, 3),
            (1_234, 8_152),
            (7, 8_152),
            (7_744, 8_152),
            (5, 5),
        ] {
            let double = f64::from(a) / f64::from(b);
            assert_eq!(quotient(a.into(), b.into()), exact(double), "{a}/{b}");
            let part = 7_745.0 / 8_152.0;
            let twice = quotient(quotient(a.into(), b.into()), quotient(7_745, 8_152));
            assert_eq!(twice, exact(double / part), "{a}/{b} of the typical");
            for amount in [1_u16, 460, 7_990] {
                let product = rounded(exact(double) * u128::from(amount), false);
                assert_eq!(product, exact(double * f64::from(amount)));
                let sum = rounded(product + exact(part), false);
                assert_eq!(sum, exact(double * f64::from(amount) + part));
            }
        }
    }
}
