//! A line for each card, with a bar that shows how full it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::report::{Card, Report};
use crate::tabs::align;

/// Width of a bar in characters.
const BAR: u64 = 20;

pub(super) fn table(report: &Report, wide: bool) -> String {
    let mut text = String::new();
    if report.cards.is_empty() {
        text.push_str("no cards: no gpushare agent has published any\n");
    } else {
        text.push_str(&align(&rows(report, wide)));
    }
    for (node, why) in &report.unreadable {
        let _ = writeln!(text, "node {node}: {why}");
    }
    text.trim_end().to_owned()
}

fn rows(report: &Report, wide: bool) -> String {
    let mut text = String::from("NODE\tCARD\tMODEL\tHEALTH\tUSED\t");
    let dimensions = dimensions(report);
    for (dimension, unit) in &dimensions {
        let _ = write!(text, "{}({unit})\t", dimension.to_uppercase());
    }
    text.push_str(if wide { "ID\tPODS\n" } else { "PODS\n" });
    for card in &report.cards {
        let Card {
            node, index, model, ..
        } = card;
        let health = if card.healthy { "ok" } else { "sick" };
        let bar = bar(fullest(card));
        let _ = write!(text, "{node}\t{index}\t{model}\t{health}\t{bar}\t");
        for dimension in dimensions.keys() {
            match (card.used.get(dimension), card.capacity.get(dimension)) {
                (used, Some(capacity)) => {
                    let _ = write!(text, "{}/{capacity}\t", used.unwrap_or(&0));
                }
                (_, None) => text.push_str("-\t"),
            }
        }
        if wide {
            let _ = writeln!(text, "{}\t{}", card.id, names(card));
        } else {
            let _ = writeln!(text, "{}", card.pods.len());
        }
    }
    text
}

/// The name and unit of every dimension of these cards.
fn dimensions(report: &Report) -> BTreeMap<String, String> {
    let units = report.cards.iter().flat_map(|card| &card.units);
    units
        .map(|(name, unit)| (name.clone(), unit.clone()))
        .collect()
}

fn names(card: &Card) -> String {
    let names = card.pods.iter().map(|pod| {
        let gone = if pod.gone {
            " (gone, containers run)"
        } else {
            ""
        };
        format!("{}/{}{gone}", pod.namespace, pod.name)
    });
    names.collect::<Vec<_>>().join(",")
}

/// How much is used of the card's fullest dimension, in percent.
fn fullest(card: &Card) -> u64 {
    let shares = card.capacity.iter().map(|(dimension, capacity)| {
        let used = card.used.get(dimension).copied().unwrap_or(0);
        let percent = u128::from(used) * 100 / u128::from(*capacity).max(1);
        u64::try_from(percent).unwrap_or(100).min(100)
    });
    shares.max().unwrap_or(0)
}

/// Any use fills at least one character, and only a full card has a full bar.
fn bar(percent: u64) -> String {
    let full = match percent {
        0 => 0,
        percent => (percent * BAR / 100).max(1),
    };
    let full = usize::try_from(full).unwrap_or(0);
    let empty = usize::try_from(BAR).unwrap_or(0).saturating_sub(full);
    format!("{}{} {percent:>3}%", "█".repeat(full), "░".repeat(empty))
}
