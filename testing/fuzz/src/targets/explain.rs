//! `/explain` for a pod that need not exist: every body gets an answer, and the answer counts each node in question
//! once.

use axum::Router;
use axum::http::StatusCode;
use gpushare_core::explain::Report;
use serde_json::Value;

use super::world::{self, block_on};
use crate::Verdict;

thread_local! {
    static EXTENDER: Router = block_on(async { world::extender(world::no_api_server()) });
}

/// How many nodes the extender of these targets knows.
const KNOWN: usize = 2;

pub(crate) fn check(body: &[u8]) -> Verdict {
    let extender = EXTENDER.with(Clone::clone);
    let (status, answer) = block_on(world::post_to(extender, "/explain", body));
    if status != StatusCode::OK {
        assert_eq!(status, StatusCode::BAD_REQUEST);
        let reason = world::error_in(&answer);
        assert!(!reason.is_empty(), "a refusal without a reason");
        return Verdict::Refused;
    }
    let answer: Value = serde_json::from_slice(&answer).expect("an answer in JSON");
    let standing = answer.get("standing").and_then(Value::as_str);
    let message = answer.get("message").and_then(Value::as_str);
    assert!(message.is_some_and(|message| !message.is_empty()));
    match standing {
        Some("proposed") => check_report(asked(body), answer),
        Some("invalid" | "not-ours") => {}
        other => panic!("a proposed pod stands as {other:?}"),
    }
    Verdict::Accepted
}

/// The number of nodes in the body, read independently of the extender; `None` if that is not possible.
fn asked(body: &[u8]) -> Option<usize> {
    let body: Value = serde_json::from_slice(body).ok()?;
    match body.get("nodes") {
        None | Some(Value::Null) => Some(KNOWN),
        Some(nodes) => Some(nodes.as_array()?.len()),
    }
}

fn check_report(asked: Option<usize>, answer: Value) {
    let report: Report = serde_json::from_value(answer).expect("a report");
    if let Some(asked) = asked {
        assert_eq!(report.nodes, asked);
    }
    let refused: usize = report.groups.iter().map(|group| group.count).sum();
    assert_eq!(report.fitting + refused, report.nodes, "each node once");
    assert!(report.fitting_nodes.len() <= report.fitting);
    for group in &report.groups {
        assert!(!group.reason.is_empty() && group.count > 0);
        assert!(!group.nodes.is_empty() && group.nodes.len() <= group.count);
        assert!(group.cards.keys().all(|node| group.nodes.contains(node)));
    }
}
