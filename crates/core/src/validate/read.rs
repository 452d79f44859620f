//! One container's limits in one dialect.

use std::sync::Arc;

use crate::amounts::Amounts;
use crate::dialect::{Dialect, PartDefault, PartRule, Scale};
use crate::quantity::{Quantity, QuantityError};
use crate::request::{ContainerAsk, Part, Want};

use super::{ContainerView, Violation};

/// More cards than any node has.
const MOST_CARDS: u64 = 64;

/// The sum of the parts, before the number of cards is known.
#[derive(Default)]
struct Parts {
    part: Part,
    /// The number of whole cards, if a dimension that counts in hundreds requests them.
    whole_cards: Option<u64>,
    /// Whether the container names any part.
    named: bool,
}

struct Reader<'a> {
    dialect: &'a Dialect,
    container: &'a ContainerView<'a>,
    violations: Vec<Violation>,
}

pub(super) fn read(
    dialect: &Dialect,
    container: &ContainerView<'_>,
) -> Result<ContainerAsk, Vec<Violation>> {
    let mut reader = Reader {
        dialect,
        container,
        violations: Vec::new(),
    };
    let count = reader.count();
    let parts = reader.parts();
    let (cards, want, limit) = match parts.whole_cards {
        Some(cards) => (cards, Want::Whole, reader.split(&parts.part.amounts, cards)),
        None if !parts.named => (count, Want::Whole, Amounts::ZERO),
        None => (count, Want::Share(parts.part), Amounts::ZERO),
    };
    if !reader.violations.is_empty() {
        return Err(reader.violations);
    }
    Ok(ContainerAsk {
        container: container.name.into(),
        role: container.role,
        index: container.index,
        class: dialect.class.clone(),
        dialect: dialect.name.clone(),
        cards: u32::try_from(cards).unwrap_or(u32::MAX),
        want,
        limit,
        choice: Arc::default(),
    })
}

/// The value of a part as written; `None` if it is absent or counts as absent.
pub(super) fn written<'a>(
    dialect: &Dialect,
    container: &'a ContainerView<'_>,
    rule: &PartRule,
) -> Option<&'a str> {
    let text = container.limit(&rule.resource)?;
    let zero = dialect.zero_is_absent && whole_number(text) == Ok(0);
    (!zero).then_some(text)
}

impl Reader<'_> {
    fn refuse(&mut self, field: &Arc<str>, value: &str, problem: String, fix: String) {
        self.violations.push(Violation {
            container: Some(self.container.name.to_owned()),
            field: field.clone(),
            value: value.to_owned(),
            problem,
            fix,
        });
    }

    fn written(&self, rule: &PartRule) -> Option<&str> {
        written(self.dialect, self.container, rule)
    }

    /// How many cards the container asks for; one if the dialect has no count.
    fn count(&mut self) -> u64 {
        let Some(count) = self.dialect.count.as_ref() else {
            return 1;
        };
        let field = &count.resource;
        let Some(text) = self.container.limit(field) else {
            if count.required {
                let fix = format!("write {field}: 1, or how many cards the container needs");
                self.refuse(field, "", "is missing".to_owned(), fix);
            }
            return 1;
        };
        let (problem, fix) = match whole_number(text) {
            Ok(cards @ 1..=MOST_CARDS) => return cards,
            Ok(0) => (
                "asks for no card".to_owned(),
                "write how many cards the container needs, or remove it".to_owned(),
            ),
            Ok(_) => (
                "is more cards than any node has".to_owned(),
                format!("it counts cards: write at most {MOST_CARDS}"),
            ),
            Err(error) => (
                error.to_string(),
                "write a plain number of cards".to_owned(),
            ),
        };
        self.refuse(field, text, problem, fix);
        1
    }

    fn parts(&mut self) -> Parts {
        let dialect = self.dialect;
        let mut parts = Parts::default();
        for (at, rule) in dialect.parts.iter().enumerate() {
            let Some(text) = self.written(rule).map(str::to_owned) else {
                continue;
            };
            let text = text.as_str();
            parts.named = true;
            let mut earlier = dialect.parts.iter().take(at);
            let twin = earlier
                .find(|other| other.dimension == rule.dimension && self.written(other).is_some());
            if let Some(twin) = twin {
                let problem = format!(
                    "must not be combined with {}, which means the same",
                    twin.resource
                );
                let fix = "keep one of them".to_owned();
                self.refuse(&rule.resource, text, problem, fix);
            } else {
                self.part(rule, text, &mut parts);
            }
        }
        let alone = dialect
            .count
            .as_ref()
            .is_some_and(|count| count.whole_alone);
        if parts.named || !alone {
            self.absent(&mut parts);
        }
        parts
    }

    fn part(&mut self, rule: &PartRule, text: &str, parts: &mut Parts) {
        match measured(rule, text) {
            Ok(Measured::Amount(amount)) => {
                let amounts = &mut parts.part.amounts;
                *amounts = amounts.with(rule.dimension, amount);
            }
            Ok(Measured::Percent(percent)) => {
                let percents = &mut parts.part.percent;
                *percents = percents.with(rule.dimension, percent);
            }
            Ok(Measured::WholeCards(cards)) => parts.whole_cards = Some(cards),
            Err((problem, fix)) => self.refuse(&rule.resource, text, problem, fix),
        }
    }

    /// Handles the dimensions that the container does not mention.
    fn absent(&mut self, parts: &mut Parts) {
        let dialect = self.dialect;
        for (at, rule) in dialect.parts.iter().enumerate() {
            let of_dimension = |other: &&PartRule| other.dimension == rule.dimension;
            let first = !dialect
                .parts
                .iter()
                .take(at)
                .any(|other| of_dimension(&other));
            let named = |other: &PartRule| self.written(other).is_some();
            let mut alike = dialect.parts.iter().filter(of_dimension);
            if !first || alike.any(named) {
                continue;
            }
            match rule.absent {
                PartDefault::Nothing => {}
                PartDefault::All => {
                    let percents = &mut parts.part.percent;
                    *percents = percents.with(rule.dimension, 100);
                }
                // A request for whole cards needs no amounts.
                PartDefault::Refused if parts.whole_cards.is_some() => {}
                PartDefault::Refused => {
                    let unit = rule.unit();
                    let fix = format!("write how many {unit} of each card the container needs");
                    self.refuse(&rule.resource, "", "is missing".to_owned(), fix);
                }
            }
        }
    }

    /// Splits a limit for all whole cards together into the limit for each card.
    fn split(&mut self, all: &Amounts, cards: u64) -> Amounts {
        let dialect = self.dialect;
        let mut each = Amounts::ZERO;
        for rule in &dialect.parts {
            let (amount, Some(text)) = (
                all.get(rule.dimension),
                self.container.limit(&rule.resource),
            ) else {
                continue;
            };
            let share = amount / cards.max(1);
            if amount > 0 && share == 0 {
                let problem = format!("is too little for {cards} cards");
                let fix =
                    format!("it is shared by the cards: write at least {cards}, or remove it");
                self.refuse(&rule.resource, text, problem, fix);
            }
            each = each.with(rule.dimension, share);
        }
        each
    }
}

enum Measured {
    Amount(u64),
    Percent(u64),
    WholeCards(u64),
}

impl PartRule {
    fn unit(&self) -> &str {
        match &self.scale {
            Scale::Units { unit, .. } => unit,
            Scale::Percent | Scale::Hundreds => "percent",
        }
    }
}

/// The meaning of a value, or (problem, fix).
fn measured(rule: &PartRule, text: &str) -> Result<Measured, (String, String)> {
    let unit = rule.unit();
    let plain = format!("write a plain number of {unit}");
    let number = whole_number(text).map_err(|error| (error.to_string(), plain))?;
    if number == 0 {
        return Err((
            "asks for nothing".to_owned(),
            format!("write at least 1 {unit}, or remove it if the container needs none"),
        ));
    }
    match &rule.scale {
        Scale::Units { each, most, .. } => number
            .checked_mul(*each)
            .filter(|amount| amount <= most)
            .map(Measured::Amount)
            .ok_or_else(|| {
                (
                    format!("means {number} {unit}, more than any card has"),
                    format!("the unit is {unit}: write a plain number of {unit} without a suffix"),
                )
            }),
        Scale::Percent if number <= 100 => Ok(Measured::Percent(number)),
        Scale::Percent => Err((
            "is more than all of a card".to_owned(),
            "write 1 to 100".to_owned(),
        )),
        Scale::Hundreds if number < 100 => Ok(Measured::Amount(number)),
        Scale::Hundreds if number % 100 == 0 && number / 100 <= MOST_CARDS => {
            Ok(Measured::WholeCards(number / 100))
        }
        Scale::Hundreds => Err((
            "is neither a part of one card nor a number of whole ones".to_owned(),
            "write 1 to 99 for a part of a card, or 100 for each whole card".to_owned(),
        )),
    }
}

fn whole_number(text: &str) -> Result<u64, QuantityError> {
    Quantity::parse(text)?.count()
}
