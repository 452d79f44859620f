//! The model in the form in which the page gets it. Pure: the same model gives the same rows.
//!
//! Names come from users and are passed on unchanged; the page shows them as text, never as markup.

pub(crate) mod budgets;
pub(crate) mod nodes;
pub(crate) mod overview;
pub(crate) mod pending;
pub(crate) mod pods;

use std::collections::BTreeMap;

use gpushare_core::ledger::CardView;
use gpushare_core::request::Want;
use gpushare_core::{Amounts, Classes, DeviceClass, PodAsk};
use serde::Serialize;

/// How much of something is used, and how much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Level {
    pub(crate) used: u64,
    pub(crate) size: u64,
}

impl Level {
    /// How much of a dimension of the card is used.
    fn of(card: &CardView<'_>, dimension: usize) -> Self {
        Self {
            used: card.used.get(dimension),
            size: card.card.capacity.get(dimension),
        }
    }

    fn add(&mut self, other: Self) {
        self.used = self.used.saturating_add(other.used);
        self.size = self.size.saturating_add(other.size);
    }

    /// In percent, rounded down, so that only what is full shows 100, and at most 100.
    pub(crate) fn percent(self) -> u8 {
        let percent = u128::from(self.used) * 100 / u128::from(self.size).max(1);
        u8::try_from(percent.min(100)).unwrap_or(100)
    }
}

/// Amounts by the name of their dimension, including zeros: the page need not know what a missing one means.
fn named(class: Option<&DeviceClass>, amounts: &Amounts) -> BTreeMap<String, u64> {
    dimensions(class)
        .map(|(index, name, _)| (name, amounts.get(index)))
        .collect()
}

fn units(class: Option<&DeviceClass>) -> BTreeMap<String, String> {
    dimensions(class)
        .map(|(_, name, unit)| (name, unit))
        .collect()
}

fn dimensions(class: Option<&DeviceClass>) -> impl Iterator<Item = (usize, String, String)> {
    let dimension = move |index| {
        let dimension = class?.dimension(index)?;
        Some((
            index,
            dimension.name.to_string(),
            dimension.unit.to_string(),
        ))
    };
    (0..).map_while(dimension)
}

/// What a pod asks for, in words: `2 cards with 20480 MiB of memory and 30 % of core`.
fn asked(ask: &PodAsk, classes: &Classes) -> String {
    let parts = ask.containers.iter().map(|ask| {
        let cards = match ask.cards {
            1 => "1 card".to_owned(),
            cards => format!("{cards} cards"),
        };
        let Want::Share(part) = &ask.want else {
            return format!("{cards}, whole");
        };
        let class = classes.get(&ask.class);
        let wanted = dimensions(class).filter_map(|(index, name, unit)| {
            let (fixed, percent) = (part.amounts.get(index), part.percent.get(index));
            match (fixed, percent) {
                (0, 0) => None,
                (0, percent) => Some(format!("{percent} % of the {name}")),
                (fixed, _) => Some(format!("{fixed} {unit} of {name}")),
            }
        });
        let wanted: Vec<String> = wanted.collect();
        format!("{cards} with {}", wanted.join(" and "))
    });
    parts.collect::<Vec<_>>().join("; ")
}
