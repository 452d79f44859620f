//! Grains: one scale for all cards and dimensions.
//!
//! A card of any size is 4,200 grains: divisible by 1 to 8 and by 100, so that halves, thirds, sevenths
//! and percents are whole numbers. Free room is rounded down and requests are rounded up, so a sum that
//! fits in grains fits in fact. Grains never decide whether a pod fits, only how well.

use gpushare_core::amounts::{Amounts, MAX_DIMENSIONS};

/// A whole card.
pub const GRAINS: i64 = 4_200;
const SCALE: u64 = 4_200;

/// The free part of a card, in its scarcest dimension.
pub fn room(free: &Amounts, capacity: &Amounts) -> i64 {
    let scarcest = dimensions(free, capacity)
        .filter_map(|(free, capacity)| free.saturating_mul(SCALE).checked_div(capacity))
        .min();
    scarcest.map_or(0, |grains| {
        i64::try_from(grains.min(SCALE)).unwrap_or(GRAINS)
    })
}

/// The part of a card that `amounts` take, in their largest dimension; `None` if they cannot fit.
pub fn size(amounts: &Amounts, capacity: &Amounts) -> Option<i64> {
    if !amounts.fits_in(capacity) {
        return None;
    }
    let largest = dimensions(amounts, capacity)
        .filter(|(_, capacity)| *capacity > 0)
        .map(|(amount, capacity)| amount.saturating_mul(SCALE).div_ceil(capacity))
        .max()?;
    Some(i64::try_from(largest.min(SCALE)).unwrap_or(GRAINS))
}

fn dimensions<'a>(
    amounts: &'a Amounts,
    capacity: &'a Amounts,
) -> impl Iterator<Item = (u64, u64)> + 'a {
    (0..MAX_DIMENSIONS).map(|dimension| (amounts.get(dimension), capacity.get(dimension)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(memory: u64, core: u64) -> Amounts {
        Amounts::of(0, memory).with(1, core)
    }

    #[test]
    fn thirds_eighths_and_percents_come_out_even() {
        let capacity = card(24_576, 100);
        for (amounts, parts) in [
            (card(8_192, 1), 3),
            (card(3_072, 1), 8),
            (card(1, 1), 100),
            (card(12_288, 50), 2),
        ] {
            let size = size(&amounts, &capacity).unwrap();
            assert_eq!(size * parts, GRAINS, "{amounts:?}");
        }
    }

    #[test]
    fn the_scarcest_dimension_counts() {
        let capacity = card(16_384, 100);
        assert_eq!(room(&card(16_384, 50), &capacity), GRAINS / 2);
        assert_eq!(size(&card(8_192, 10), &capacity), Some(GRAINS / 2));
        assert_eq!(size(&card(16_385, 10), &capacity), None);
    }

    #[test]
    fn a_dimension_that_the_card_lacks_limits_nothing() {
        let capacity = card(16_384, 0);
        assert_eq!(room(&card(16_384, 0), &capacity), GRAINS);
        assert_eq!(size(&card(4_096, 0), &capacity), Some(GRAINS / 4));
        assert_eq!(size(&card(4_096, 1), &capacity), None);
    }

    #[test]
    fn absurd_amounts_stay_in_range() {
        let huge = card(u64::MAX, u64::MAX);
        assert_eq!(room(&huge, &card(1, 1)), GRAINS);
        assert!((0..=GRAINS).contains(&size(&huge, &huge).unwrap()));
    }
}
