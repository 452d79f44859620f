//! The standing of a budget: what remains, whether it is exhausted, and when it will be at the current rate.

use crate::Seconds;
use crate::money::{Amount, MoneyError, Rate};

/// The sums of one budget at a moment, from the ledger and the meter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The amount, what was carried over and what was granted.
    pub supplied: Amount,
    /// Charged.
    pub used: Amount,
    /// Accrued and not charged yet.
    pub held: Amount,
    /// What accrues with each second from now on.
    pub rate: Rate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetStanding {
    pub remaining: Amount,
    pub exhausted: bool,
    /// `None` if the period ends first, or if nothing remains already: then there is nothing to forecast, and "now"
    /// would be a different answer each time.
    pub exhausts_at: Option<Seconds>,
}

/// The standing of a budget by its own numbers. `until` is the end of its period; a rolling window has none.
pub fn standing(
    sums: &Sums,
    now: Seconds,
    until: Option<Seconds>,
) -> Result<BudgetStanding, MoneyError> {
    let remaining = sums.supplied.minus(sums.used)?.minus(sums.held)?;
    let left = remaining.micros();
    let exhausts_at = match sums.rate.micros() {
        rate if left <= 0 || rate <= 0 => None,
        // Rounded up: at this second nothing remains.
        rate => now.checked_add(left / rate + i64::from(left % rate > 0)),
    };
    let before_the_end = |at: &Seconds| until.is_none_or(|until| *at < until);
    Ok(BudgetStanding {
        remaining,
        exhausted: left <= 0,
        exhausts_at: exhausts_at.filter(before_the_end),
    })
}

/// The standing of a budget with all its ancestors: it is exhausted as soon as one of them is.
pub fn with_ancestors(
    own: BudgetStanding,
    ancestors: impl IntoIterator<Item = BudgetStanding>,
) -> BudgetStanding {
    let all = ancestors
        .into_iter()
        .fold(own, |all, ancestor| BudgetStanding {
            remaining: all.remaining,
            exhausted: all.exhausted || ancestor.exhausted,
            exhausts_at: match (all.exhausts_at, ancestor.exhausts_at) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
        });
    BudgetStanding {
        exhausts_at: all.exhausts_at.filter(|_| !all.exhausted),
        ..all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(supplied: i64, used: i64, held: i64, rate: i64) -> Sums {
        let amount = |seconds| Amount::from_seconds(seconds).unwrap();
        Sums {
            supplied: amount(supplied),
            used: amount(used),
            held: amount(held),
            rate: Rate::from_micros(rate),
        }
    }

    #[test]
    fn what_remains_lasts_until_the_rate_has_used_it_up() {
        let standing = standing(&sums(100, 40, 10, 3_000_000), 1_000, Some(2_000)).unwrap();
        assert_eq!(standing.remaining.whole_seconds(), 50);
        assert!(!standing.exhausted);
        assert_eq!(standing.exhausts_at, Some(1_017));
    }

    #[test]
    fn a_period_that_ends_before_has_no_exhaustion_ahead() {
        assert_eq!(
            standing(&sums(100, 40, 10, 3_000_000), 1_000, Some(1_017))
                .unwrap()
                .exhausts_at,
            None
        );
        assert_eq!(
            standing(&sums(100, 40, 10, 0), 1_000, None)
                .unwrap()
                .exhausts_at,
            None
        );
    }

    #[test]
    fn nothing_left_is_exhausted_and_what_is_held_counts() {
        let now = standing(&sums(100, 40, 60, 0), 1_000, None).unwrap();
        assert!(now.exhausted);
        let later = standing(&sums(100, 40, 60, 0), 1_001, None).unwrap();
        assert_eq!(now, later, "time alone changes nothing");
    }

    #[test]
    fn what_is_exhausted_has_no_exhaustion_ahead() {
        let over = standing(&sums(100, 40, 60, 1_000_000), 1_000, None).unwrap();
        assert_eq!(over.exhausts_at, None);
    }

    #[test]
    fn an_exhausted_ancestor_exhausts_its_descendants() {
        let rich = standing(&sums(100, 0, 0, 1_000_000), 0, None).unwrap();
        let poor = standing(&sums(10, 10, 0, 0), 0, None).unwrap();
        let together = with_ancestors(rich, [poor]);
        assert!(together.exhausted);
        assert!(rich.exhausts_at.is_some());
        assert_eq!(together.exhausts_at, None);
        assert_eq!(together.remaining, rich.remaining);
    }
}
