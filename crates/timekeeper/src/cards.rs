//! What is known of the cards that pods hold, including the cards of nodes that are gone.
//!
//! What nodes show now takes precedence. Cards that unsettled pods may still need are stored in the ledger, so that
//! their prices stay known after their node is gone, also to the next leader.

use std::collections::{BTreeMap, BTreeSet};

use gpushare_core::card::Card;
use gpushare_core::{Classes, inventory};
use gpushare_ledger::store::Change;

/// The cards of each node.
pub(super) type Cards = BTreeMap<String, Vec<Card>>;

#[derive(Debug, Default)]
pub(super) struct Memory {
    nodes: Cards,
}

impl Memory {
    /// From inventories as they were written.
    pub(super) fn read(classes: &Classes, written: &[(String, String)]) -> Self {
        let nodes = written.iter().map(|(node, text)| {
            let cards = inventory::decode(classes, text).unwrap_or_else(|error| {
                tracing::warn!(node, %error, "the cards that were remembered cannot be read");
                Vec::new()
            });
            (node.clone(), cards)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    /// All cards that a node shows or once showed.
    pub(super) fn of(&self, node: &str, shown: &Cards) -> Vec<Card> {
        let mut cards = shown.get(node).cloned().unwrap_or_default();
        for old in self.nodes.get(node).into_iter().flatten() {
            if !cards.iter().any(|card| card.id == old.id) {
                cards.push(old.clone());
            }
        }
        cards
    }

    /// What is to be remembered for pods on these nodes.
    pub(super) fn wanted(&self, shown: &Cards, needed: &BTreeSet<&str>) -> Self {
        let nodes = needed.iter().map(|node| {
            let mut cards = self.of(node, shown);
            for card in &mut cards {
                // Health changes, and no price depends on it.
                card.healthy = true;
            }
            ((*node).to_owned(), cards)
        });
        Self {
            nodes: nodes.filter(|(_, cards)| !cards.is_empty()).collect(),
        }
    }

    /// The changes to write to get from here to `to`.
    pub(super) fn changes(&self, to: &Self, classes: &Classes) -> Vec<Change> {
        let new = to.nodes.iter();
        let learned = new
            .filter(|(node, cards)| self.nodes.get(*node) != Some(*cards))
            .map(|(node, cards)| (node, Some(inventory::encode(classes, cards))));
        let old = self.nodes.keys();
        let forgotten = old
            .filter(|node| !to.nodes.contains_key(*node))
            .map(|node| (node, None));
        let remember = |(node, cards): (&String, Option<String>)| Change::Remember {
            node: node.clone(),
            cards,
        };
        learned.chain(forgotten).map(remember).collect()
    }
}

#[cfg(test)]
mod tests {
    use gpushare_core::{Amounts, CardId, gpu};

    use super::*;

    fn card(id: &str, healthy: bool) -> Card {
        Card {
            id: CardId::new(id),
            class: gpu::CLASS.into(),
            index: 0,
            model: "T4".into(),
            capacity: Amounts::of(gpu::MEMORY, 1024),
            healthy,
        }
    }

    fn shown(cards: &[Card]) -> Cards {
        BTreeMap::from([("n".to_owned(), cards.to_vec())])
    }

    fn ids(cards: &[Card]) -> Vec<&str> {
        cards.iter().map(|card| card.id.as_str()).collect()
    }

    /// Every change as the node and how many of its cards are remembered.
    fn told(changes: &[Change]) -> Vec<(String, Option<usize>)> {
        let told = changes.iter().map(|change| match change {
            Change::Remember { node, cards } => {
                let cards = cards.as_deref();
                let cards = cards.map(|text| inventory::decode(&gpu::classes(), text).unwrap());
                (node.clone(), cards.map(|cards| cards.len()))
            }
            other => panic!("{other:?}"),
        });
        told.collect()
    }

    #[test]
    fn cards_are_remembered_while_pods_need_them_and_survive_their_node() {
        let classes = gpu::classes();
        let needed = BTreeSet::from(["n"]);
        let empty = Memory::default();
        let one = empty.wanted(&shown(&[card("a", false)]), &needed);
        assert_eq!(
            told(&empty.changes(&one, &classes)),
            [("n".to_owned(), Some(1))]
        );
        let other = one.wanted(&shown(&[card("b", true)]), &needed);
        assert_eq!(
            told(&one.changes(&other, &classes)),
            [("n".to_owned(), Some(2))]
        );
        let gone = other.wanted(&Cards::new(), &needed);
        assert_eq!(told(&other.changes(&gone, &classes)), []);
        assert_eq!(ids(&gone.of("n", &Cards::new())), ["b", "a"]);
        let settled = gone.wanted(&Cards::new(), &BTreeSet::new());
        assert_eq!(
            told(&gone.changes(&settled, &classes)),
            [("n".to_owned(), None)]
        );
    }

    #[test]
    fn what_was_written_is_read_again_and_health_changes_nothing() {
        let classes = gpu::classes();
        let needed = BTreeSet::from(["n"]);
        let healthy = Memory::default().wanted(&shown(&[card("a", true)]), &needed);
        let written = inventory::encode(&classes, &healthy.of("n", &Cards::new()));
        let read = Memory::read(&classes, &[("n".to_owned(), written)]);
        assert_eq!(told(&read.changes(&healthy, &classes)), []);
        let sick = read.wanted(&shown(&[card("a", false)]), &needed);
        assert_eq!(told(&read.changes(&sick, &classes)), []);
        let unreadable = Memory::read(&classes, &[("n".to_owned(), "{".to_owned())]);
        assert!(unreadable.of("n", &Cards::new()).is_empty());
    }
}
