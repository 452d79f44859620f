//! Measures two kinds of work in turns, so that other load on the machine affects both.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long one pair of figures may take.
const BUDGET: Duration = Duration::from_secs(8);
const WARM_UP: usize = 30;
/// The most rounds. They take seconds, so that a burst of other work, which may take half a second, does not decide the
/// result.
const MOST: usize = 20_000;

/// The medians of two kinds of work, done in turns until the budget is used up.
pub(crate) fn in_turns(
    first: impl FnMut() -> Result<()>,
    second: impl FnMut() -> Result<()>,
) -> Result<(Duration, Duration)> {
    let (firsts, seconds) = times_in_turns(first, second)?;
    Ok((median(firsts)?, median(seconds)?))
}

/// The times of two kinds of work, done in turns until the budget is used up.
pub(crate) fn times_in_turns(
    mut first: impl FnMut() -> Result<()>,
    mut second: impl FnMut() -> Result<()>,
) -> Result<(Vec<Duration>, Vec<Duration>)> {
    for _ in 0..WARM_UP {
        first()?;
        second()?;
    }
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    let began = Instant::now();
    for round in 0..MOST {
        // Swapped in every round, so that neither always runs right after the other.
        if round % 2 == 0 {
            firsts.push(time(&mut first)?);
            seconds.push(time(&mut second)?);
        } else {
            seconds.push(time(&mut second)?);
            firsts.push(time(&mut first)?);
        }
        if began.elapsed() > BUDGET {
            break;
        }
    }
    Ok((firsts, seconds))
}

pub(crate) fn time(work: &mut impl FnMut() -> Result<()>) -> Result<Duration> {
    let began = Instant::now();
    work()?;
    Ok(began.elapsed())
}

pub(crate) fn median<T: PartialOrd + Copy>(mut values: Vec<T>) -> Result<T> {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let middle = values.get(values.len() / 2);
    middle.copied().context("nothing was measured")
}

/// The time within which 99 of 100 are done.
pub(crate) fn p99(mut times: Vec<Duration>) -> Result<Duration> {
    times.sort();
    let kept = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(kept).copied().context("nothing was measured")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(vec![9, 1, 5]).unwrap(), 5);
        assert!(median(Vec::<u8>::new()).is_err());
    }

    #[test]
    fn one_time_of_a_hundred_may_be_longer() {
        let times = |count: u64| (1..=count).rev().map(Duration::from_secs).collect();
        assert_eq!(p99(times(100)).unwrap(), Duration::from_secs(99));
        assert_eq!(p99(times(1)).unwrap(), Duration::from_secs(1));
        assert!(p99(Vec::new()).is_err());
    }

    #[test]
    fn both_kinds_of_work_are_done_equally_often() {
        let (mut first, mut second) = (0, 0);
        in_turns(
            || {
                first += 1;
                Ok(())
            },
            || {
                second += 1;
                Ok(())
            },
        )
        .unwrap();
        assert_eq!(first, second);
        assert!(first > WARM_UP);
    }
}
