//! Pods that wait, each with the reason in one line and what would help.
//!
//! Pods with the same ask wait for the same reasons, so these are computed once for each different ask.

use std::collections::BTreeMap;

use gpushare_core::explain::{CardDetail, Explanation, Report, Tally};
use gpushare_core::{NodeName, PodAsk, PodUid, Steps};
use serde::Serialize;

use super::asked;
use crate::model::{AllocationState, Model, Pod, PodName};

/// How many different asks are explained in the list; a pod's own page always explains it.
const MOST_EXPLAINED: usize = 32;
/// How many suggestions the list shows for each pod.
const MOST_HELP: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Row {
    #[serde(flatten)]
    title: PodName,
    created: i64,
    priority: i32,
    state: State,
    asks: String,
    /// `None` if it was not computed.
    reason: Option<String>,
    help: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    Waiting,
    /// A node could take it: the scheduler has not tried it yet, or has its own reasons.
    Fits,
    /// Other pods are being evicted for it.
    Preempting,
    Gated,
    Invalid,
}

/// Why pods with one ask wait.
#[derive(Clone, Debug)]
struct Reason {
    fits: bool,
    text: String,
    help: Vec<String>,
}

pub(crate) fn rows(model: &Model) -> BTreeMap<String, Row> {
    let mut reasons: BTreeMap<&PodAsk, Reason> = BTreeMap::new();
    let waiting = model.pods().filter(|(_, pod)| pod.waits());
    let mut rows = BTreeMap::new();
    for (uid, pod) in waiting {
        let row = match &pod.allocation {
            AllocationState::Waiting {
                ask,
                gated: false,
                claim: None,
            } => {
                if !reasons.contains_key(ask) && reasons.len() < MOST_EXPLAINED {
                    reasons.insert(ask, Reason::of(model, uid, ask));
                }
                row(model, pod, reasons.get(ask))
            }
            _ => row(model, pod, None),
        };
        let PodName { namespace, name } = pod.title();
        rows.insert(format!("{namespace}/{name}"), row);
    }
    rows
}

fn row(model: &Model, pod: &Pod, reason: Option<&Reason>) -> Row {
    let (state, said) = match &pod.allocation {
        AllocationState::Invalid { why } => (State::Invalid, Some(why.clone())),
        AllocationState::Waiting {
            claim: Some((node, _)),
            ..
        } => {
            let said = format!("room is being made for it on {node}");
            (State::Preempting, Some(said))
        }
        AllocationState::Waiting { gated: true, .. } => {
            let said = "it has a scheduling gate: the scheduler does not look at it yet".to_owned();
            (State::Gated, Some(said))
        }
        _ if reason.is_some_and(|reason| reason.fits) => (State::Fits, None),
        _ => (State::Waiting, None),
    };
    let asks = match &pod.allocation {
        AllocationState::Waiting { ask, .. } => asked(ask, &model.dialects().classes),
        _ => String::new(),
    };
    Row {
        title: pod.title().clone(),
        created: pod.about.created,
        priority: pod.about.priority,
        state,
        asks,
        reason: said.or_else(|| Some(reason?.text.clone())),
        help: reason.map(|reason| reason.help.clone()).unwrap_or_default(),
    }
}

impl Reason {
    fn of(model: &Model, pod: &PodUid, ask: &PodAsk) -> Self {
        let explanation = explain(model, pod, ask);
        let report = explanation.report(ask, model.dialects(), |_| Vec::new());
        let mut help: Vec<String> = Vec::new();
        for one in report.groups.into_iter().flat_map(|group| group.help) {
            if help.len() < MOST_HELP && !help.contains(&one) {
                help.push(one);
            }
        }
        Self {
            fits: report.fitting > 0,
            text: report.message,
            help: if report.fitting > 0 { Vec::new() } else { help },
        }
    }
}

/// Why each node can or cannot take the pod, by the same rule that the extender applies.
fn explain(model: &Model, pod: &PodUid, ask: &PodAsk) -> Explanation {
    let ledger = model.ledger();
    let steps = Steps::for_request();
    let search = ledger.search(ask, &steps);
    let mut tally = Tally::default();
    for name in model.nodes().keys() {
        tally.add(name, ledger.fit(name.as_str(), pod, &search));
    }
    tally.finish()
}

/// The same explanation with all details.
pub(crate) fn report(model: &Model, pod: &PodUid, ask: &PodAsk) -> Report {
    let ledger = model.ledger();
    let cards = |node: &NodeName| {
        let steps = Steps::new(0);
        let search = ledger.search(ask, &steps);
        let view = ledger.node(node.as_str());
        let rooms = view.map_or(&[][..], |view| view.rooms());
        let detail = |room| CardDetail::new(ledger.classes(), &search, room);
        rooms.iter().map(detail).collect()
    };
    explain(model, pod, ask).report(ask, model.dialects(), cards)
}

#[cfg(test)]
mod tests;
