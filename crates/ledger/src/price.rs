//! What a second of a holding costs: the price of each card's model times the part of the card that is held.
//!
//! This is the only rounding in the whole system: up to a millionth for each card, so that nothing held is free.

use std::fmt;
use std::sync::Arc;

use gpushare_core::card::Card;
use gpushare_core::gpu;
use gpushare_core::placement::Hold;

use crate::money::{MoneyError, Rate};

/// Must change whenever our code would price the same holding differently.
const VERSION: u32 = 1;

/// What is held of one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub model: Arc<str>,
    pub memory: Part,
    pub core: Part,
}

/// How much of a resource is held. If `held` is 0, the resource was not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub held: u64,
    pub of: u64,
}

/// How the parts of memory and compute become one part of the card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formula {
    Max,
    Weighted { memory: u32, core: u32 },
}

/// Prices by model. An exact name takes precedence, then the longest match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices(Vec<(Pattern, Rate)>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Name(String),
    Beginning(String),
}

impl Holding {
    /// `None` for cards that are not GPUs: they have no price.
    pub fn new(card: &Card, hold: &Hold) -> Option<Self> {
        let amounts = hold.on(&card.capacity);
        let part = |dimension| Part {
            held: amounts.get(dimension),
            of: card.capacity.get(dimension),
        };
        (*card.class == *gpu::CLASS).then(|| Self {
            model: card.model.clone(),
            memory: part(gpu::MEMORY),
            core: part(gpu::CORE),
        })
    }
}

impl Part {
    /// As numerator and denominator, at most 1. `None` if `held` or `of` is 0.
    fn fraction(self) -> Option<(u128, u128)> {
        let asked = self.held > 0 && self.of > 0;
        asked.then(|| (u128::from(self.held.min(self.of)), u128::from(self.of)))
    }
}

impl Formula {
    /// The part of the card, as numerator and denominator.
    fn part(self, holding: &Holding) -> (u128, u128) {
        let (memory, core) = match (holding.memory.fraction(), holding.core.fraction()) {
            (Some(memory), Some(core)) => (memory, core),
            (Some(one), None) | (None, Some(one)) => return one,
            (None, None) => return (0, 1),
        };
        match self {
            Self::Max if memory.0 * core.1 >= core.0 * memory.1 => memory,
            Self::Max => core,
            Self::Weighted { memory: m, core: c } => {
                let (m, c) = (u128::from(m), u128::from(c));
                (
                    m * memory.0 * core.1 + c * core.0 * memory.1,
                    (m + c).max(1) * memory.1 * core.1,
                )
            }
        }
    }
}

impl fmt::Display for Formula {
    /// As it is stored with each charge.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => write!(f, "max/{VERSION}"),
            Self::Weighted { memory, core } => write!(f, "weighted({memory},{core})/{VERSION}"),
        }
    }
}

impl Prices {
    /// From models, each a whole name or a prefix followed by `*`.
    pub fn new<'a>(prices: impl IntoIterator<Item = (&'a str, Rate)>) -> Self {
        let pattern = |model: &str| match model.strip_suffix('*') {
            Some(beginning) => Pattern::Beginning(beginning.to_owned()),
            None => Pattern::Name(model.to_owned()),
        };
        let prices = prices.into_iter();
        Self(
            prices
                .map(|(model, price)| (pattern(model), price))
                .collect(),
        )
    }

    pub fn of(&self, model: &str) -> Rate {
        let rank = |pattern: &Pattern| match pattern {
            Pattern::Name(name) => (name == model).then_some(usize::MAX),
            Pattern::Beginning(text) => model.starts_with(text.as_str()).then_some(text.len()),
        };
        let matching = self
            .0
            .iter()
            .filter_map(|(pattern, price)| Some((rank(pattern)?, *price)));
        matching
            .max_by_key(|(rank, _)| *rank)
            .map_or(Rate::ONE, |(_, price)| price)
    }
}

/// What a second of all these holdings costs.
pub fn rate(holdings: &[Holding], prices: &Prices, formula: Formula) -> Result<Rate, MoneyError> {
    holdings.iter().try_fold(Rate::ZERO, |sum, holding| {
        let (held, of) = formula.part(holding);
        let price = u128::try_from(prices.of(&holding.model).micros()).unwrap_or(0);
        let micros = price
            .checked_mul(held)
            .ok_or(MoneyError::TooLarge)?
            .div_ceil(of.max(1));
        sum.plus(Rate::from_micros(
            i64::try_from(micros).map_err(|_| MoneyError::TooLarge)?,
        ))
    })
}

#[cfg(test)]
mod tests {
    use gpushare_core::{Amounts, CardId};

    use super::*;

    fn holding(memory: u64, core: u64) -> Holding {
        Holding {
            model: "NVIDIA A100-SXM4-80GB".into(),
            memory: part(memory, 80),
            core: part(core, 100),
        }
    }

    fn part(held: u64, of: u64) -> Part {
        Part { held, of }
    }

    fn check(held: &[Holding], prices: &[(&str, &str)], formula: Formula, micros: i64) {
        let prices = prices
            .iter()
            .map(|(model, price)| (*model, Rate::parse_price(price).unwrap()));
        let rate = rate(held, &Prices::new(prices), formula).unwrap();
        assert_eq!(rate.micros(), micros, "{held:?} {formula:?}");
    }

    const EVEN: Formula = Formula::Weighted { memory: 1, core: 1 };

    #[test]
    fn the_larger_part_or_the_weighted_mean_counts() {
        check(&[holding(20, 50)], &[], Formula::Max, 500_000);
        check(&[holding(60, 50)], &[], Formula::Max, 750_000);
        check(&[holding(20, 50)], &[], EVEN, 375_000);
        let uneven = Formula::Weighted { memory: 3, core: 1 };
        check(&[holding(20, 50)], &[], uneven, 312_500);
        check(&[holding(80, 100)], &[], EVEN, 1_000_000);
    }

    #[test]
    fn a_part_that_was_not_asked_for_counts_like_the_other() {
        check(&[holding(20, 0)], &[], EVEN, 250_000);
        check(&[holding(0, 30)], &[], EVEN, 300_000);
        check(&[holding(20, 0)], &[], Formula::Max, 250_000);
    }

    #[test]
    fn cards_add_up_and_the_longest_model_sets_the_price() {
        let prices = [
            ("NVIDIA*", "2"),
            ("NVIDIA A100*", "3"),
            ("*", "9"),
            ("Tesla T4", "0.5"),
        ];
        let two = [holding(40, 0), holding(80, 0)];
        check(&two, &prices, Formula::Max, 4_500_000);
        let name_and_beginning = [
            ("NVIDIA A100-SXM4-80GB", "7"),
            ("NVIDIA A100-SXM4-80GB*", "8"),
        ];
        let one = [holding(80, 0)];
        check(&one, &name_and_beginning, Formula::Max, 7_000_000);
    }

    #[test]
    fn what_is_held_costs_something_and_never_more_than_the_card() {
        let least = Holding {
            memory: part(1, u64::MAX),
            ..holding(0, 0)
        };
        check(&[least], &[("*", "0.000001")], Formula::Max, 1);
        check(&[holding(u64::MAX, u64::MAX)], &[], EVEN, 1_000_000);
        check(&[holding(0, 0)], &[], EVEN, 0);
    }

    #[test]
    fn a_whole_card_is_one_and_other_devices_cost_nothing() {
        let mut card = Card {
            id: CardId::new("c"),
            class: gpu::CLASS.into(),
            index: 0,
            model: "T4".into(),
            capacity: Amounts::of(gpu::MEMORY, 16_000).with(gpu::CORE, 100),
            healthy: true,
        };
        let whole = Holding::new(&card, &Hold::Whole).unwrap();
        check(&[whole], &[], EVEN, 1_000_000);
        card.class = "rdma".into();
        assert_eq!(Holding::new(&card, &Hold::Whole), None);
    }
}
