//! Exact Kubernetes quantities: integers only, no floats, no rounding while parsing.

use std::fmt;

use thiserror::Error;

/// A quantity as a whole number of billionths, the finest step Kubernetes knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity {
    nanos: i128,
}

#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum QuantityError {
    #[error("is not a number; write digits with an optional suffix such as k, M, G, Ki, Mi or Gi")]
    NotANumber,
    #[error(
        "has an unknown suffix; known are n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei and exponents such as e3"
    )]
    UnknownSuffix,
    #[error("is finer than a billionth")]
    TooFine,
    #[error("is larger than any quantity Kubernetes can hold")]
    TooLarge,
    #[error("must not be negative")]
    Negative,
    #[error("must be a whole number")]
    Fraction,
}

const NANOS_PER_UNIT: i128 = 1_000_000_000;
const NANO_DIGITS: i64 = 9;
/// Significant digits that fit into an `i128`; no real quantity has more.
const MOST_DIGITS: usize = 38;
const LARGEST_EXPONENT: i64 = 1 << 40;
/// Kubernetes keeps quantities within ±(2^63 − 1).
const LIMIT_NANOS: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;

impl Quantity {
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (negative, unsigned) = match text.as_bytes().first() {
            Some(b'-') => (true, text.get(1..).unwrap_or_default()),
            Some(b'+') => (false, text.get(1..).unwrap_or_default()),
            _ => (false, text),
        };
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(QuantityError::NotANumber);
        }
        let nanos = scale(
            whole,
            fraction.trim_end_matches('0'),
            Suffix::parse(suffix)?,
        )?;
        Ok(Self {
            nanos: if negative { -nanos } else { nanos },
        })
    }

    /// The value as a count of things: whole and not negative.
    pub fn count(self) -> Result<u64, QuantityError> {
        if self.nanos < 0 {
            return Err(QuantityError::Negative);
        }
        if self.nanos % NANOS_PER_UNIT != 0 {
            return Err(QuantityError::Fraction);
        }
        u64::try_from(self.nanos / NANOS_PER_UNIT).map_err(|_| QuantityError::TooLarge)
    }
}

impl Quantity {
    /// The value times `per_unit`, rounded up and capped at `i64::MAX`, for sums where an upper bound
    /// is enough. A negative value counts as zero.
    pub fn rounded_up(self, per_unit: u64) -> i64 {
        let units = self.nanos.max(0).saturating_mul(i128::from(per_unit));
        let rounded = units.saturating_add(NANOS_PER_UNIT - 1) / NANOS_PER_UNIT;
        i64::try_from(rounded).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}n", self.nanos)
    }
}

#[derive(Clone, Copy)]
enum Suffix {
    /// times 1024 to the power
    Binary(u32),
    /// times 10 to the power
    Decimal(i64),
}

impl Suffix {
    fn parse(text: &str) -> Result<Self, QuantityError> {
        Ok(match text {
            "n" => Self::Decimal(-9),
            "u" => Self::Decimal(-6),
            "m" => Self::Decimal(-3),
            "" => Self::Decimal(0),
            "k" => Self::Decimal(3),
            "M" => Self::Decimal(6),
            "G" => Self::Decimal(9),
            "T" => Self::Decimal(12),
            "P" => Self::Decimal(15),
            "E" => Self::Decimal(18),
            "Ki" => Self::Binary(1),
            "Mi" => Self::Binary(2),
            "Gi" => Self::Binary(3),
            "Ti" => Self::Binary(4),
            "Pi" => Self::Binary(5),
            "Ei" => Self::Binary(6),
            _ => Self::Decimal(exponent(text)?),
        })
    }
}

/// `e3`, `E+3`, `e-3`.
fn exponent(text: &str) -> Result<i64, QuantityError> {
    let digits = text
        .strip_prefix(['e', 'E'])
        .ok_or(QuantityError::UnknownSuffix)?;
    let (sign, digits) = match digits.as_bytes().first() {
        Some(b'-') => (-1, digits.get(1..).unwrap_or_default()),
        Some(b'+') => (1, digits.get(1..).unwrap_or_default()),
        _ => (1, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(QuantityError::UnknownSuffix);
    }
    // A larger exponent has the same result: too fine or too large.
    Ok(sign
        * digits
            .parse()
            .unwrap_or(LARGEST_EXPONENT)
            .min(LARGEST_EXPONENT))
}

/// `whole.fraction` times the suffix, in billionths.
fn scale(whole: &str, fraction: &str, suffix: Suffix) -> Result<i128, QuantityError> {
    let digits: String = [whole, fraction].concat();
    let significant = digits.trim_end_matches('0');
    let zeros = length(&digits) - length(significant);
    let significant = significant.trim_start_matches('0');
    if significant.is_empty() {
        return Ok(0);
    }
    let (exponent, mut doublings) = match suffix {
        Suffix::Binary(exponent) => (0, 10 * exponent),
        Suffix::Decimal(exponent) => (exponent, 0),
    };
    let mut power = NANO_DIGITS - length(fraction) + zeros + exponent;
    if significant.len() > MOST_DIGITS {
        return Err(if power < 0 {
            QuantityError::TooFine
        } else {
            QuantityError::TooLarge
        });
    }
    let mut value: i128 = significant.parse().map_err(|_| QuantityError::TooLarge)?;
    // Dividing first, and cancelling factors of two against the suffix, keeps intermediate values small.
    while power < 0 {
        let halves = doublings == 0;
        if value % 5 != 0 || (halves && value % 2 != 0) {
            return Err(QuantityError::TooFine);
        }
        value /= if halves { 10 } else { 5 };
        doublings = doublings.saturating_sub(1);
        power += 1;
    }
    while value <= LIMIT_NANOS && (doublings > 0 || power > 0) {
        if doublings > 0 {
            doublings -= 1;
            value *= 2;
        } else {
            power -= 1;
            value *= 10;
        }
    }
    if value > LIMIT_NANOS {
        Err(QuantityError::TooLarge)
    } else {
        Ok(value)
    }
}

fn length(text: &str) -> i64 {
    i64::try_from(text.len()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(text: &str) -> Result<u64, QuantityError> {
        Quantity::parse(text)?.count()
    }

    #[test]
    fn every_suffix_of_kubernetes_is_exact() {
        let table = [
            ("0", 0),
            ("3072", 3072),
            ("+5", 5),
            ("007", 7),
            ("1k", 1_000),
            ("1M", 1_000_000),
            ("10G", 10_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1P", 1_000_000_000_000_000),
            ("1E", 1_000_000_000_000_000_000),
            ("1Ki", 1 << 10),
            ("1Mi", 1 << 20),
            ("1Gi", 1 << 30),
            ("1Ti", 1 << 40),
            ("1Pi", 1 << 50),
            ("7Ei", 7 << 60),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("1e+3", 1_000),
            ("3000e-3", 3),
            ("3000m", 3),
            ("5000000u", 5),
            ("1.5Gi", 1_610_612_736),
            ("1.5k", 1_500),
            (".5k", 500),
            ("5.", 5),
            ("2.000", 2),
            ("9223372036854775807", i64::MAX as u64),
            ("1000000000000000000000000000000000000000000e-42", 1),
            ("0.00000000000000088817841970012523233890533447265625Pi", 1),
            ("0.0000000009094947017729282379150390625Ti", 1_000),
        ];
        for (text, expected) in table {
            assert_eq!(count(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_count_says_why() {
        use QuantityError::{Fraction, Negative, NotANumber, TooFine, TooLarge, UnknownSuffix};
        let table = [
            ("", NotANumber),
            ("Gi", NotANumber),
            (".", NotANumber),
            ("1.2.3", NotANumber),
            ("--1", NotANumber),
            ("1 Gi", UnknownSuffix),
            ("1GiB", UnknownSuffix),
            ("1K", UnknownSuffix),
            ("1e", UnknownSuffix),
            ("1e3.5", UnknownSuffix),
            ("٣", NotANumber),
            ("-1", Negative),
            ("1.5", Fraction),
            ("100m", Fraction),
            ("1n", Fraction),
            ("0.1n", TooFine),
            ("0.792883200000000000000000000000025Ti", TooFine),
            ("1.0000000000000000000000000000000000000000001", TooFine),
            ("9223372036854775808", TooLarge),
            ("8Ei", TooLarge),
            ("16Ei", TooLarge),
            ("1e400", TooLarge),
            ("99999999999999999999999999999999999999999", TooLarge),
        ];
        for (text, expected) in table {
            assert_eq!(count(text), Err(expected), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_answered_without_a_panic(text in ".{0,60}") {
            let _ = count(&text);
        }

        #[test]
        fn every_count_survives_printing(value in 0..=i64::MAX as u64) {
            proptest::prop_assert_eq!(count(&value.to_string()), Ok(value));
        }
    }

    #[test]
    fn rounding_up_never_says_less_than_there_is() {
        let thousandths = |text| Quantity::parse(text).unwrap().rounded_up(1_000);
        assert_eq!(thousandths("500m"), 500);
        assert_eq!(thousandths("1.0001"), 1_001);
        assert_eq!(thousandths("-3"), 0);
        assert_eq!(thousandths("9E"), i64::MAX);
    }
}
