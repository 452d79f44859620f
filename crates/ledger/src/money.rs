//! GPU time in whole millionths of a GPU-second. No floating point, and no sum that wraps around.
//!
//! One GPU-second is one whole card of price 1 for one second.

use std::fmt;

use thiserror::Error;

const MICROS: i64 = 1_000_000;

/// An amount of GPU time; negative if it is owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount(i64);

/// What is charged for each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(i64);

#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MoneyError {
    #[error(
        "the amount {0:?} is neither a positive number of GPU-seconds nor a duration such as 20h, 1d12h or 90m"
    )]
    Amount(String),
    #[error(
        "the price {0:?} is not a number with at most six digits before and six after the point, such as 2.5"
    )]
    Price(String),
    #[error("an amount of GPU time is larger than the ledger can hold")]
    TooLarge,
}

impl Amount {
    pub const ZERO: Self = Self(0);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub fn from_seconds(seconds: i64) -> Result<Self, MoneyError> {
        fitting(seconds.checked_mul(MICROS)).map(Self)
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// For programs: GPU-seconds as a decimal number, exact, with at most six digits after the point.
    pub fn exact(self) -> String {
        decimal(self.0)
    }

    /// Whole GPU-seconds; the fraction is dropped.
    pub const fn whole_seconds(self) -> i64 {
        self.0 / MICROS
    }

    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        fitting(self.0.checked_add(other.0)).map(Self)
    }

    pub fn minus(self, other: Self) -> Result<Self, MoneyError> {
        fitting(self.0.checked_sub(other.0)).map(Self)
    }

    pub fn sum(amounts: impl IntoIterator<Item = Self>) -> Result<Self, MoneyError> {
        amounts.into_iter().try_fold(Self::ZERO, Self::plus)
    }

    /// A duration in days, hours, minutes and seconds in this order, each at most once.
    pub fn parse_duration(text: &str) -> Result<Self, MoneyError> {
        let wrong = || MoneyError::Amount(text.to_owned());
        let seconds = duration_seconds(text).filter(|seconds| *seconds > 0);
        Self::from_seconds(seconds.ok_or_else(wrong)?)
    }
}

/// Refuses what is larger than the ledger can hold.
fn fitting(micros: Option<i64>) -> Result<i64, MoneyError> {
    micros.ok_or(MoneyError::TooLarge)
}

fn decimal(micros: i64) -> String {
    let sign = if micros < 0 { "-" } else { "" };
    let micros = micros.unsigned_abs();
    let text = format!("{sign}{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    short.to_owned()
}

/// The seconds of `1d2h3m4s`, where any part may be missing. `None` for anything else.
pub(crate) fn duration_seconds(text: &str) -> Option<i64> {
    let mut rest = text;
    let mut total: i64 = 0;
    for (unit, seconds) in [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)] {
        if let Some((number, after)) = rest.split_once(unit) {
            if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
                return None;
            }
            let number: i64 = number.parse().ok()?;
            total = total.checked_add(number.checked_mul(seconds)?)?;
            rest = after;
        }
    }
    (rest.is_empty() && !text.is_empty()).then_some(total)
}

impl fmt::Display for Amount {
    /// For people: hours and minutes, or minutes and seconds where there are no hours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.whole_seconds().unsigned_abs();
        if self.0 < 0 && seconds > 0 {
            f.write_str("-")?;
        }
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes, seconds) {
            (0, 0, seconds) => write!(f, "{seconds}s"),
            (0, minutes, 0) => write!(f, "{minutes}m"),
            (0, minutes, seconds) => write!(f, "{minutes}m{seconds}s"),
            (hours, 0, _) => write!(f, "{hours}h"),
            (hours, minutes, _) => write!(f, "{hours}h{minutes}m"),
        }
    }
}

impl Rate {
    pub const ZERO: Self = Self(0);
    /// One whole card of price 1.
    pub const ONE: Self = Self(MICROS);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        fitting(self.0.checked_add(other.0)).map(Self)
    }

    /// For programs: GPU-seconds for each second, as [`Amount::exact`].
    pub fn exact(self) -> String {
        decimal(self.0)
    }

    /// Exact and linear: however a time is cut, the parts add up to the whole.
    pub fn during(self, seconds: i64) -> Result<Amount, MoneyError> {
        fitting(self.0.checked_mul(seconds)).map(Amount)
    }

    /// A price as administrators write it.
    pub fn parse_price(text: &str) -> Result<Self, MoneyError> {
        let wrong = || MoneyError::Price(text.to_owned());
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |part: &str| {
            (1..=6).contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
        };
        if !digits(whole) || !digits(part) {
            return Err(wrong());
        }
        let number = |text: &str| text.parse::<i64>().map_err(|_| wrong());
        Ok(Self(
            number(whole)? * MICROS + number(&format!("{part:0<6}"))?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_their_order_only() {
        let check = |text: &str, seconds: Option<i64>| {
            let parsed = Amount::parse_duration(text).ok().map(Amount::whole_seconds);
            assert_eq!(parsed, seconds, "{text:?}");
        };
        check("20h", Some(72_000));
        check("1d12h", Some(129_600));
        check("90m", Some(5_400));
        check("1d2h3m4s", Some(93_784));
        for wrong in [
            "",
            "0h",
            "h",
            "2h1d",
            "1h1h",
            "1.5h",
            "-1h",
            "+1h",
            "20",
            "20 h",
            "9999999999999999999s",
        ] {
            check(wrong, None);
        }
        check("9223372036854775807s", None);
    }

    #[test]
    fn prices_have_at_most_six_decimals() {
        let check = |text: &str, micros: Option<i64>| {
            let parsed = Rate::parse_price(text).ok().map(Rate::micros);
            assert_eq!(parsed, micros, "{text:?}");
        };
        check("1", Some(1_000_000));
        check("2.5", Some(2_500_000));
        check("0.000001", Some(1));
        check("999999.999999", Some(999_999_999_999));
        for wrong in [
            "",
            ".5",
            "5.",
            "1e3",
            "-1",
            "2,5",
            "1.0000001",
            "1.2.3",
            "1000000",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn exact_amounts_have_every_digit_and_no_more() {
        let check = |micros: i64, text: &str| {
            assert_eq!(Amount::from_micros(micros).exact(), text);
        };
        check(0, "0");
        check(1, "0.000001");
        check(-1, "-0.000001");
        check(72_000_000_000, "72000");
        check(1_500_000, "1.5");
        check(100_000_000, "100");
        check(i64::MIN, "-9223372036854.775808");
        check(i64::MAX, "9223372036854.775807");
    }

    #[test]
    fn amounts_read_well() {
        let check = |seconds: i64, text: &str| {
            assert_eq!(Amount::from_seconds(seconds).unwrap().to_string(), text);
        };
        check(0, "0s");
        check(59, "59s");
        check(60, "1m");
        check(90, "1m30s");
        check(72_000, "20h");
        check(45_059, "12h30m");
        check(-7_200, "-2h");
    }

    #[test]
    fn sums_that_do_not_fit_are_errors() {
        let more = Amount::from_micros(i64::MAX).plus(Amount::from_micros(1));
        assert_eq!(more, Err(MoneyError::TooLarge));
        assert_eq!(Rate::ONE.during(i64::MAX), Err(MoneyError::TooLarge));
    }
}
