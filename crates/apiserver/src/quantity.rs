//! Quantities as the API server stores them: it reads `1000m`, `1024Mi` or the number 3000 and keeps `1`, `1Gi`, `3k`.
//! Exact integers in billionths; no floating point.

const NANOS: i128 = 1_000_000_000;

/// Why a text is not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QuantityError {
    #[error(
        "quantities must be a number with an optional suffix such as m, k, Mi or e3; {0:?} is not"
    )]
    Malformed(String),
    #[error("quantity {0:?} is out of range")]
    OutOfRange(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Decimal,
    Binary,
    Exponent,
}

/// An amount, exact to the billionth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nanos: i128,
    format: Format,
}

const DECIMAL: [(&str, i32); 10] = [
    ("", 0),
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
const BINARY: [(&str, u32); 6] = [
    ("Ki", 10),
    ("Mi", 20),
    ("Gi", 30),
    ("Ti", 40),
    ("Pi", 50),
    ("Ei", 60),
];

impl Quantity {
    pub(crate) fn parse(text: &str) -> Result<Self, QuantityError> {
        let malformed = || QuantityError::Malformed(text.to_owned());
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        let (format, ten, two) = scale(suffix).ok_or_else(malformed)?;
        let digits = format!("{whole}{fraction}");
        let places = i32::try_from(fraction.len()).map_err(|_| malformed())?;
        amount(digits.trim_start_matches('0'), ten - places + 9, two)
            .map(|nanos| Self {
                nanos: if negative { -nanos } else { nanos },
                format,
            })
            .ok_or_else(|| QuantityError::OutOfRange(text.to_owned()))
    }

    pub(crate) fn is_negative(self) -> bool {
        self.nanos < 0
    }

    pub(crate) fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    pub(crate) fn exceeds(self, other: Self) -> bool {
        self.nanos > other.nanos
    }

    pub(crate) fn equals(self, other: Self) -> bool {
        self.nanos == other.nanos
    }

    /// The spelling that the server stores.
    pub(crate) fn canonical(self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        let whole = self.nanos / NANOS;
        if self.format == Format::Binary && self.is_whole() && whole.abs() >= 1024 {
            let (mut number, mut suffix) = (whole, "");
            for (name, _) in BINARY {
                if number % 1024 != 0 {
                    break;
                }
                (number, suffix) = (number / 1024, name);
            }
            return format!("{number}{suffix}");
        }
        let (mut number, mut exponent) = (self.nanos, -9);
        while number % 1000 == 0 && exponent < 18 {
            (number, exponent) = (number / 1000, exponent + 3);
        }
        if self.format == Format::Exponent {
            return if exponent == 0 {
                number.to_string()
            } else {
                format!("{number}e{exponent}")
            };
        }
        let suffix = DECIMAL
            .iter()
            .find(|(_, ten)| *ten == exponent)
            .map_or("", |(name, _)| name);
        format!("{number}{suffix}")
    }
}

/// Format, power of ten and power of two of a suffix.
fn scale(suffix: &str) -> Option<(Format, i32, u32)> {
    if let Some((_, ten)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Decimal, *ten, 0));
    }
    if let Some((_, two)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((Format::Binary, 0, *two));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((Format::Exponent, exponent.parse().ok()?, 0))
}

/// digits × 10^ten × 2^two, rounded up to an integer.
fn amount(digits: &str, ten: i32, two: u32) -> Option<i128> {
    let digits: i128 = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    if digits == 0 {
        return Some(0);
    }
    let digits = digits.checked_mul(1_i128.checked_shl(two)?)?;
    let power = 10_i128.checked_pow(ten.unsigned_abs());
    if ten >= 0 {
        return digits.checked_mul(power?);
    }
    match power {
        Some(power) => Some(digits / power + i128::from(digits % power != 0)),
        None => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: &str) {
        assert_eq!(
            Quantity::parse(text).unwrap().canonical(),
            canonical,
            "{text}"
        );
    }

    #[test]
    fn quantities_are_kept_in_one_spelling() {
        for (text, canonical) in [
            ("0", "0"),
            ("00", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1000m", "1"),
            ("100m", "100m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("512", "512"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("10G", "10G"),
            ("16Ei", "16Ei"),
            ("-1", "-1"),
            ("0.1n", "1n"),
            ("9223372036854775807", "9223372036854775807"),
        ] {
            check(text, canonical);
        }
    }

    #[test]
    fn other_texts_are_not_quantities() {
        for text in ["", "x", "1x", "Gi", "1 Gi", "1.2.3", "1e", "--1", "1Gi5"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }
}
