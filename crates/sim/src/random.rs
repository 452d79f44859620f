//! Seeded random numbers, the same on every machine: SplitMix64, with integers only.
//!
//! The figures in `docs/packing.md` and the plans of chaos campaigns depend on every number. So no crate is used,
//! because its next version could draw other numbers.

/// The mean of [`Random::exponential`].
pub const MEAN: u64 = 1 << 32;

#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to `bound` - 1, uniform to within 2^-64.
    pub fn below(&mut self, bound: usize) -> usize {
        let wide = (u128::from(self.draw()) * bound as u128) >> 64;
        usize::try_from(wide).unwrap_or(0)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Exponentially distributed, with mean [`MEAN`].
    pub fn exponential(&mut self) -> u64 {
        // ln(2^64 / x) = ln 2 * (64 - log2 x)
        const LN_2: u128 = 2_977_044_472;
        let bits = (64_u64 << 32).saturating_sub(log2(self.draw().max(1)));
        u64::try_from((u128::from(bits) * LN_2) >> 32).unwrap_or(u64::MAX)
    }
}

/// The binary logarithm in units of 2^-32, computed bit by bit: squaring the number doubles its logarithm.
fn log2(number: u64) -> u64 {
    let whole = u64::from(number.ilog2());
    // The mantissa, from 1 to 2, in units of 2^-63.
    let mut mantissa = u128::from(number) << (63 - number.ilog2());
    let mut log = whole << 32;
    for digit in (0..32).rev() {
        mantissa = (mantissa * mantissa) >> 63;
        if mantissa >> 64 > 0 {
            mantissa >>= 1;
            log |= 1 << digit;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_gives_the_numbers_of_splitmix64() {
        let mut random = Random::new(1_234_567);
        let drawn = [random.draw(), random.draw(), random.draw()];
        assert_eq!(
            drawn,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn logarithms_are_exact_to_their_last_digits() {
        for number in [1, 2, 3, 10, 1_000_003, u64::MAX / 3, u64::MAX] {
            #[expect(clippy::cast_precision_loss, reason = "a test of approximations")]
            let (ours, exact) = (
                log2(number) as f64 / 4_294_967_296.0,
                (number as f64).log2(),
            );
            assert!((ours - exact).abs() < 1e-8, "{number}: {ours} {exact}");
        }
    }

    #[test]
    fn exponential_numbers_have_their_mean_and_median() {
        let mut random = Random::new(7);
        let mut drawn: Vec<u64> = (0..20_000).map(|_| random.exponential()).collect();
        drawn.sort_unstable();
        let mean = drawn.iter().sum::<u64>() / 20_000;
        assert!(mean.abs_diff(MEAN) < MEAN / 50, "{mean}");
        let median = MEAN / 1_000_000 * 693_147;
        assert!(drawn[10_000].abs_diff(median) < MEAN / 40);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..100).collect();
        Random::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
