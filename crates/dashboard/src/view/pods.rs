//! Search for pods by name, and the details of one pod: where its containers are, or why it waits.

use gpushare_core::explain::Report;
use gpushare_core::placement::Share;
use gpushare_core::{CardId, NodeName, PodUid};
use serde::Serialize;
use std::collections::BTreeMap;

use super::{asked, named, pending};
use crate::model::{About, AllocationState, Model, Pod, PodName};

/// How many results are listed; a longer search text finds fewer.
const MOST_FOUND: usize = 20;

/// Pods that match a search text.
#[derive(Debug, Serialize)]
pub(crate) struct SearchResult {
    total: usize,
    pods: Vec<Named>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Named {
    #[serde(flatten)]
    title: PodName,
    node: Option<NodeName>,
}

/// Finds pods that hold or wait for cards by their name, their namespace, or both with a slash between.
pub(crate) fn find(model: &Model, text: &str) -> SearchResult {
    let matches = |PodName { namespace, name }: &PodName| match text.split_once('/') {
        Some((left, right)) => namespace.ends_with(left) && name.starts_with(right),
        None => name.contains(text) || namespace.contains(text),
    };
    let pods = model.pods().map(|(_, pod)| pod);
    let found = pods.filter(|pod| matches(pod.title()));
    let mut found: Vec<&Pod> = found.collect();
    let total = found.len();
    found.sort_unstable_by_key(|pod| pod.title());
    let named = found.into_iter().take(MOST_FOUND).map(|pod| Named {
        title: pod.title().clone(),
        node: pod.node().cloned(),
    });
    SearchResult {
        total,
        pods: named.collect(),
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detail {
    #[serde(skip)]
    pub(crate) uid: PodUid,
    #[serde(flatten)]
    about: About,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeName>,
    asks: String,
    /// What is wrong with its request or its record.
    #[serde(skip_serializing_if = "Option::is_none")]
    wrong: Option<String>,
    /// Where room is being made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    claimed_on: Option<NodeName>,
    gated: bool,
    containers: Vec<Container>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Report>,
}

#[derive(Debug, Serialize)]
struct Container {
    name: String,
    class: String,
    cards: Vec<Held>,
}

/// What a container holds of a card.
#[derive(Debug, Serialize)]
struct Held {
    id: CardId,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    used: BTreeMap<String, u64>,
}

pub(crate) fn detail(model: &Model, namespace: &str, name: &str) -> Option<Detail> {
    let (uid, pod) = model.pod_named(namespace, name)?;
    let classes = &model.dialects().classes;
    let mut detail = Detail {
        uid: uid.clone(),
        about: pod.about.clone(),
        node: pod.node().cloned(),
        asks: String::new(),
        wrong: None,
        claimed_on: None,
        gated: false,
        containers: Vec::new(),
        report: None,
    };
    match &pod.allocation {
        AllocationState::Placed {
            node,
            ask,
            placement,
        } => {
            detail.asks = asked(ask, classes);
            let containers = placement.containers.iter().map(|placed| {
                let held = |share| held(model, node, &placed.class, share);
                Container {
                    name: placed.container.to_string(),
                    class: placed.class.to_string(),
                    cards: placed.shares.iter().map(held).collect(),
                }
            });
            detail.containers = containers.collect();
        }
        AllocationState::Unproven { why, .. } | AllocationState::Invalid { why } => {
            detail.wrong = Some(why.clone());
        }
        AllocationState::Waiting { ask, gated, claim } => {
            detail.asks = asked(ask, classes);
            detail.gated = *gated;
            detail.claimed_on = claim.as_ref().map(|(node, _)| node.clone());
            detail.report = Some(pending::report(model, uid, ask));
        }
    }
    Some(detail)
}

fn held(model: &Model, node: &NodeName, class: &str, share: &Share) -> Held {
    let node = model.ledger().node(node.as_str());
    let card = node.and_then(|node| node.card(share.card.as_str()));
    let capacity = card.map(|card| card.card.capacity).unwrap_or_default();
    Held {
        id: share.card.clone(),
        index: card.map(|card| card.card.index),
        model: card.map(|card| card.card.model.to_string()),
        used: named(
            model.ledger().classes().get(class),
            &share.hold.on(&capacity),
        ),
    }
}
