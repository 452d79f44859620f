//! Fading: how quickly earlier requests are forgotten.
//!
//! Once the new requests add up to all cards of the cluster, earlier ones count half, but not before
//! [`LEAST_REQUESTS`] new requests: fewer say little about a mix. Fading follows demand, not time, so a
//! busy cluster learns as much as a quiet one before it forgets, and the core needs no clock.

/// Requests after which earlier requests may count half.
const LEAST_REQUESTS: i64 = 1_024;
/// ln 2 in 65,536ths: `1 - x ln 2` is `2^-x` for small x.
const LN_2: i128 = 45_426;
const WHOLE: i64 = 1 << 16;

/// The part that is forgotten, in 65,536ths; never more than half at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FadingFactor(i64);

impl FadingFactor {
    #[cfg(test)]
    pub(super) const HALF: Self = Self(WHOLE / 2);

    /// The fading caused by `requests` that ask for `grains` in total, in a cluster of `capacity` grains.
    pub(super) fn after(requests: u64, grains: i64, capacity: i64) -> Self {
        let by_demand = i128::from(grains.max(0)) * LN_2 / i128::from(capacity.max(1));
        let by_requests = i128::from(requests) * LN_2 / i128::from(LEAST_REQUESTS);
        let part = i64::try_from(by_demand.min(by_requests)).unwrap_or(WHOLE);
        Self(part.min(WHOLE / 2))
    }

    /// What is left of a number after fading.
    pub(super) fn of(self, number: i64) -> i64 {
        let lost = (i128::from(number) * i128::from(self.0)) >> 16;
        i64::try_from(i128::from(number) - lost).unwrap_or(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_after(times: i64, requests: u64, grains: i64, capacity: i64) -> i64 {
        let fading = FadingFactor::after(requests, grains, capacity);
        (0..times).fold(1_000_000, |left, _| fading.of(left))
    }

    #[test]
    fn a_cluster_of_demand_halves_what_came_before() {
        let left = left_after(100, 1_000_000, 10, 1_000);
        assert!((490_000..510_000).contains(&left), "{left}");
    }

    #[test]
    fn a_small_cluster_remembers_a_thousand_requests() {
        let left = left_after(32, 32, 1_000, 8);
        assert!((480_000..510_000).contains(&left), "{left}");
    }

    #[test]
    fn at_most_half_is_forgotten_at_once() {
        assert_eq!(left_after(1, u64::MAX, i64::MAX, 0), 500_000);
    }
}
