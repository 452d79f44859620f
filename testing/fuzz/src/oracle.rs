//! A second implementation of Kubernetes quantities, by schoolbook arithmetic on decimal digits of any length: slow,
//! simple, and sharing no code with the parser that it checks.

pub(crate) mod request;

/// Kubernetes keeps quantities within ±(2^63 − 1).
const LARGEST: &str = "9223372036854775807";

/// The suffixes of 1024, 1024² and so on.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// The suffixes from a billionth on, each for 1000 times the one before.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// What a quantity means, in billionths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The sign, and decimal digits without leading zeros; zero has none.
    Exactly {
        negative: bool,
        billionths: String,
    },
    NotAQuantity,
    TooFine,
    TooLarge,
}

pub(crate) fn meaning(text: &str) -> Meaning {
    let Some(parts) = parts(text) else {
        return Meaning::NotAQuantity;
    };
    let mut digits: Vec<u8> = [parts.whole, parts.fraction]
        .concat()
        .bytes()
        .map(|digit| digit - b'0')
        .collect();
    for _ in 0..parts.times_1024 {
        digits = times_1024(&digits);
    }
    let digits: String = digits
        .into_iter()
        .map(|digit| char::from(digit + b'0'))
        .collect();
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Meaning::Exactly {
            negative: false,
            billionths: String::new(),
        };
    }
    let fraction = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
    let zeros = parts.times_10.saturating_add(9).saturating_sub(fraction);
    let billionths = match usize::try_from(zeros) {
        // A number that long exceeds the limit.
        Ok(zeros) if zeros > 40 => return Meaning::TooLarge,
        Ok(zeros) => format!("{digits}{}", "0".repeat(zeros)),
        Err(_) => {
            let cut = usize::try_from(zeros.unsigned_abs()).unwrap_or(usize::MAX);
            let kept = digits.len().checked_sub(cut);
            match kept.map(|kept| digits.split_at(kept)) {
                Some((kept, cut)) if cut.bytes().all(|digit| digit == b'0') => kept.to_owned(),
                _ => return Meaning::TooFine,
            }
        }
    };
    let limit = format!("{LARGEST}000000000");
    if (billionths.len(), &billionths) > (limit.len(), &limit) {
        return Meaning::TooLarge;
    }
    Meaning::Exactly {
        negative: parts.negative,
        billionths,
    }
}

/// The quantity as a whole, non-negative number, if it is one.
pub(crate) fn count(text: &str) -> Option<u64> {
    match meaning(text) {
        Meaning::Exactly { billionths, .. } if billionths.is_empty() => Some(0),
        Meaning::Exactly {
            negative: false,
            billionths,
        } => billionths.strip_suffix("000000000")?.parse().ok(),
        _ => None,
    }
}

struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    times_1024: usize,
    times_10: i64,
}

fn parts(text: &str) -> Option<Parts<'_>> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, rest) = leading_digits(text);
    let (fraction, suffix) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let binary = (1..).zip(BINARY).find(|(_, known)| *known == suffix);
    let mut decimal = (-9..).step_by(3).zip(DECIMAL);
    let decimal = decimal.find(|(_, known)| *known == suffix);
    let (times_1024, times_10) = match (binary, decimal) {
        (Some((power, _)), _) => (power, 0),
        (_, Some((power, _))) => (0, power),
        _ => (0, exponent(suffix)?),
    };
    Some(Parts {
        negative,
        whole,
        fraction,
        times_1024,
        times_10,
    })
}

fn leading_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    text.split_at(end)
}

fn exponent(suffix: &str) -> Option<i64> {
    let number = suffix
        .strip_prefix('e')
        .or_else(|| suffix.strip_prefix('E'))?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (all, rest) = leading_digits(digits);
    if all.is_empty() || !rest.is_empty() {
        return None;
    }
    let value = all.parse().unwrap_or(i64::MAX);
    Some(if negative { -value } else { value })
}

fn times_1024(digits: &[u8]) -> Vec<u8> {
    let mut product = Vec::with_capacity(digits.len() + 4);
    let mut carry = 0_u32;
    for digit in digits.iter().rev() {
        carry += u32::from(*digit) * 1024;
        product.push(last_digit(carry));
        carry /= 10;
    }
    while carry > 0 {
        product.push(last_digit(carry));
        carry /= 10;
    }
    product.reverse();
    product
}

fn last_digit(number: u32) -> u8 {
    u8::try_from(number % 10).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, billionths: &str) {
        let negative = billionths.starts_with('-');
        let billionths = billionths.trim_start_matches('-').to_owned();
        let expected = Meaning::Exactly {
            negative,
            billionths,
        };
        assert_eq!(meaning(text), expected, "{text}");
    }

    #[test]
    fn values_that_can_be_checked_by_hand() {
        check("0", "");
        check("1n", "1");
        check("-1.5", "-1500000000");
        check("0.5Ki", "512000000000");
        check("1Gi", "1073741824000000000");
        check("10e-10", "1");
        check("9223372036854775807", "9223372036854775807000000000");
        check(&format!("1{}e-50", "0".repeat(50)), "1000000000");
    }

    #[test]
    fn what_is_no_quantity_too_fine_or_too_large() {
        for text in ["", ".", "1..2", "1Kib", "1e", "e3", "1 ", "٣"] {
            assert_eq!(meaning(text), Meaning::NotAQuantity, "{text}");
        }
        assert_eq!(meaning("1e-10"), Meaning::TooFine);
        assert_eq!(meaning("0.1Ki1"), Meaning::NotAQuantity);
        assert_eq!(meaning("9223372036854775808"), Meaning::TooLarge);
        assert_eq!(meaning("1e99999999999999999999"), Meaning::TooLarge);
        assert_eq!(meaning("8Ei"), Meaning::TooLarge);
    }

    #[test]
    fn only_whole_numbers_count_things() {
        assert_eq!(count("3k"), Some(3000));
        assert_eq!(count("0.0"), Some(0));
        assert_eq!(count("1.5"), None);
        assert_eq!(count("-1"), None);
    }
}
