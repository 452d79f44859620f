//! Nodes: our reduced type accepts whatever the full one does, and reads the same from it; it contains no card twice.

use std::collections::BTreeSet;

use gpushare_kube::{convert, slim};
use k8s_openapi::api::core::v1 as full;

use super::inventory::two_classes;
use super::pod::{both, same_metadata};
use crate::Verdict;

pub(crate) fn check(data: &[u8]) -> Verdict {
    let Some((full, slim)) = both::<full::Node, slim::Node>(data) else {
        return Verdict::Refused;
    };
    if let Some(full) = full {
        same_metadata(&full.metadata, &slim.metadata);
    }
    let cards = convert::cards(&slim, &two_classes());
    if let Ok(Some(cards)) = &cards {
        let ids: BTreeSet<_> = cards.iter().map(|card| &card.id).collect();
        assert_eq!(ids.len(), cards.len(), "a card is listed twice");
    }
    Verdict::of(&cards)
}
