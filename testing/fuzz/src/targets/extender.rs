//! Filter and prioritize, as kube-scheduler calls them: every body gets an answer, and an answer names only nodes that
//! were asked about.

use std::collections::BTreeSet;

use axum::Router;
use axum::http::StatusCode;
use serde_json::Value;

use super::world::{self, block_on};
use crate::Verdict;

thread_local! {
    static EXTENDER: Router = block_on(async { world::extender(world::no_api_server()) });
}

/// The answer, if the body was understood.
fn answer(verb: &str, body: &[u8]) -> Option<Value> {
    let extender = EXTENDER.with(Clone::clone);
    let (status, answer) = block_on(world::post(extender, verb, body));
    if status == StatusCode::OK {
        return Some(serde_json::from_slice(&answer).expect("an answer in JSON"));
    }
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(
        !world::error_in(&answer).is_empty(),
        "a refusal without a reason"
    );
    None
}

/// The nodes in the body, read independently of the extender: names, or whole nodes with their names. `None` if the
/// body is broken in a place that the extender does not read.
fn asked(body: &[u8]) -> Option<(Vec<String>, Option<Vec<Value>>)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let field = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| body.get(*name));
        found.find(|value| !value.is_null()).cloned()
    };
    if let Some(names) = field(&["NodeNames", "nodeNames", "nodenames"]) {
        let names = names.as_array()?.iter().map(|name| name.as_str());
        return Some((
            names
                .map(|name| Some(name?.to_owned()))
                .collect::<Option<_>>()?,
            None,
        ));
    }
    let nodes = field(&["Nodes", "nodes"])?;
    let items = nodes.get("items").or_else(|| nodes.get("Items"));
    let items = items.and_then(Value::as_array).cloned().unwrap_or_default();
    let name = |node: &Value| Some(node.pointer("/metadata/name")?.as_str()?.to_owned());
    Some((items.iter().map(name).collect::<Option<_>>()?, Some(items)))
}

pub(crate) fn filter(body: &[u8]) -> Verdict {
    let Some(answer) = answer("filter", body) else {
        return Verdict::Refused;
    };
    let error = answer.get("Error").and_then(Value::as_str);
    assert_eq!(
        error,
        Some(""),
        "no booking of the world is of the asked pod"
    );
    let Some((names, nodes)) = asked(body) else {
        return Verdict::Accepted;
    };
    let refused = answer
        .get("FailedAndUnresolvableNodes")
        .and_then(Value::as_object);
    let refused = refused.expect("refusals");
    assert!(
        refused
            .values()
            .all(|reason| reason.as_str().is_some_and(|text| !text.is_empty()))
    );
    let fits = |name: &&String| !refused.contains_key(*name);
    match nodes {
        None => {
            let left: Vec<&String> = names.iter().filter(fits).collect();
            assert_eq!(answer.get("NodeNames"), Some(&serde_json::json!(left)));
        }
        Some(nodes) => {
            let left: Vec<&Value> = nodes
                .iter()
                .zip(&names)
                .filter(|(_, name)| fits(name))
                .map(|(node, _)| node)
                .collect();
            let items = answer.pointer("/Nodes/items");
            assert_eq!(
                items,
                Some(&serde_json::json!(left)),
                "nodes come back as they were"
            );
        }
    }
    let asked: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    assert!(refused.keys().all(|name| asked.contains(name.as_str())));
    Verdict::Accepted
}

pub(crate) fn prioritize(body: &[u8]) -> Verdict {
    let Some(answer) = answer("prioritize", body) else {
        return Verdict::Refused;
    };
    let Some((names, _)) = asked(body) else {
        return Verdict::Accepted;
    };
    let scores = answer.as_array().expect("a list of scores");
    let hosts: Vec<&str> = scores
        .iter()
        .map(|score| score.get("Host").and_then(Value::as_str).expect("a host"))
        .collect();
    let mut rest = names.iter();
    let in_order = |host: &&str| rest.any(|name| name == host);
    assert!(
        hosts.iter().all(in_order),
        "nodes that were asked about, each once and in order"
    );
    for score in scores {
        let score = score.get("Score").and_then(Value::as_i64);
        assert!(
            score.is_some_and(|score| (0..=10).contains(&score)),
            "kube-scheduler refuses others"
        );
    }
    Verdict::Accepted
}
