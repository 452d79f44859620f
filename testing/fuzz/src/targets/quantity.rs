//! Kubernetes quantities: what is accepted equals the oracle, and nothing else is refused.

use gpushare_core::quantity::{Quantity, QuantityError};

use super::on_text;
use crate::Verdict;
use crate::oracle::{Meaning, count, meaning};

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let parsed = Quantity::parse(text);
        match (&parsed, meaning(text)) {
            (
                Ok(quantity),
                Meaning::Exactly {
                    negative,
                    billionths,
                },
            ) => {
                let sign = if negative { "-" } else { "" };
                let digits = if billionths.is_empty() {
                    "0"
                } else {
                    &billionths
                };
                assert_eq!(format!("{quantity:?}"), format!("{sign}{digits}n"));
                assert_eq!(quantity.count().ok(), count(text));
            }
            (
                Err(QuantityError::NotANumber | QuantityError::UnknownSuffix),
                Meaning::NotAQuantity,
            )
            | (Err(QuantityError::TooFine), Meaning::TooFine)
            | (Err(QuantityError::TooLarge), Meaning::TooLarge) => {}
            (Err(QuantityError::TooFine | QuantityError::TooLarge), _) if is_endless(text) => {}
            (parsed, meant) => panic!("{text:?} is {parsed:?}, should be {meant:?}"),
        }
        Verdict::of(&parsed)
    })
}

/// More digits than anyone would write; such a text need only be refused.
fn is_endless(text: &str) -> bool {
    let number: String = text
        .chars()
        .take_while(|letter| !letter.is_ascii_alphabetic())
        .filter(char::is_ascii_digit)
        .collect();
    number.trim_matches('0').len() > 38
}
