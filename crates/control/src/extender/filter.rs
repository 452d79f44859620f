//! Filter: which nodes have one card with room for the pod, and for the others why not.

use std::collections::BTreeMap;

use gpushare_core::Why;
use gpushare_kube::convert::PodFacts;

use super::state::State;
use super::wire::{Candidates, FilterResult, NodeList};

/// Every reason that a user reads in an event begins with this.
const PREFIX: &str = "gpushare: ";

/// Why a node, or all of them, were not offered; for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NotReady,
    InvalidRequest,
    NoCards,
    NoRoom,
    /// The pod is bound, being bound, or held by a bind in doubt.
    Held,
}

#[derive(Debug)]
pub(super) struct Filtered<'a> {
    pub(super) result: FilterResult<'a>,
    pub(super) refusals: Vec<Refusal>,
}

pub(super) fn filter<'a>(
    state: &State,
    pod: &PodFacts,
    candidates: &'a Candidates<'a>,
) -> Filtered<'a> {
    if let Err(missing) = state.ready() {
        return not_ready(missing);
    }
    let ask = match &pod.ask {
        Ok(Some(ask)) => ask,
        Ok(None) => return answer(candidates, Vec::new()),
        Err(violations) => {
            let reason = violations.to_string();
            let refuse = |name| (name, reason.clone(), Refusal::InvalidRequest);
            return answer(
                candidates,
                candidates.names().into_iter().map(refuse).collect(),
            );
        }
    };
    let search = state.ledger().search(ask);
    let names = candidates.names();
    let asked = names.len();
    let refused: Vec<_> = names
        .into_iter()
        .filter_map(|name| {
            let why = state.ledger().fit(name, &pod.uid, &search).err()?;
            Some((name, why.to_string(), Refusal::of(&why)))
        })
        .collect();
    // That a pod is bound or being bound is no matter of the nodes. As an error the scheduler tries it
    // again soon; as a refusal by every node it would wait for some event in the cluster.
    let held = state.ledger().booking(pod.uid.as_str()).is_some();
    match refused.first() {
        Some((_, reason, _)) if held && refused.len() == asked => error(reason, Refusal::Held),
        _ => answer(candidates, refused),
    }
}

impl Refusal {
    fn of(why: &Why) -> Self {
        match why {
            Why::NoCards { .. } => Self::NoCards,
            Why::TooSmall { .. } | Why::Blocked { .. } => Self::NoRoom,
            Why::BindInProgress { .. } | Why::HeldElsewhere { .. } | Why::AlreadyBound { .. } => {
                Self::Held
            }
        }
    }

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::InvalidRequest => "invalid_request",
            Self::NoCards => "no_cards",
            Self::NoRoom => "no_room",
            Self::Held => "held",
        }
    }
}

/// No answer can be given now; the scheduler asks again soon.
pub(super) fn not_ready<'a>(reason: &str) -> Filtered<'a> {
    error(reason, Refusal::NotReady)
}

fn error<'a>(reason: &str, refusal: Refusal) -> Filtered<'a> {
    Filtered {
        result: FilterResult {
            error: format!("{PREFIX}{reason}"),
            ..FilterResult::default()
        },
        refusals: vec![refusal],
    }
}

/// The candidates without the refused, in the form in which they came.
fn answer<'a>(
    candidates: &'a Candidates<'a>,
    refused: Vec<(&'a str, String, Refusal)>,
) -> Filtered<'a> {
    let mut refusals = Vec::with_capacity(refused.len());
    let mut reasons = BTreeMap::new();
    for (name, reason, refusal) in refused {
        refusals.push(refusal);
        reasons.insert(name, format!("{PREFIX}{reason}"));
    }
    let mut result = FilterResult::default();
    match candidates {
        Candidates::Names(names) => {
            let names = names.iter().map(String::as_str);
            result.node_names = Some(names.filter(|name| !reasons.contains_key(name)).collect());
        }
        Candidates::Nodes(nodes) => {
            let fitting = nodes
                .iter()
                .filter(|node| !reasons.contains_key(&*node.name));
            result.nodes = Some(NodeList {
                metadata: BTreeMap::new(),
                items: fitting.map(|node| node.text).collect(),
            });
        }
    }
    result.failed_and_unresolvable_nodes = reasons;
    Filtered { result, refusals }
}
