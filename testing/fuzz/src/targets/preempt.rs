//! The preempt verb: whatever the body says, the answer has only nodes that were named, no pod of equal or higher
//! priority is evicted, and requests to the API server concern only budgets and the pod.

use std::cell::RefCell;
use std::collections::BTreeMap;

use axum::Router;
use axum::http::{Method, StatusCode, Uri};
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_kube::convert::PodFacts;
use gpushare_kube::slim;
use serde_json::{Value, json};

use super::api::{self, Sent};
use super::world::{self, block_on, holder};
use crate::Verdict;

/// Pods that hold cards: uid, node, and whether the waiting pod of the world may evict it.
const HOLDERS: [(&str, &str, bool); 3] = [
    ("low", "fake-1", true),
    ("equal", "fake-1", false),
    ("lower", "fake-2", true),
];

thread_local! {
    /// Kept between inputs, because creating one takes longer than a request to it.
    static EXTENDER: RefCell<Option<(Router, Sent)>> = const { RefCell::new(None) };
}

fn extender() -> (Router, Sent) {
    let sent = Sent::default();
    let holders = [
        holder("low", 1, "fake-1", 0, 16),
        holder("equal", 10, "fake-1", 1, 24),
        holder("lower", 0, "fake-2", 0, 8),
    ];
    let router = block_on(async {
        let client = api::server(sent.clone(), answer);
        world::extender_with(client, &holders)
    });
    (router, sent)
}

pub(crate) fn check(body: &[u8]) -> Verdict {
    let (extender, sent) = EXTENDER.take().unwrap_or_else(extender);
    let (status, answer) = block_on(world::post(extender.clone(), "preempt", body));
    let requests = sent.take();
    for (method, uri) in &requests {
        check_request(method, uri);
    }
    if !requests.iter().any(|(method, _)| *method == Method::PATCH) {
        // Nothing was claimed, so the next input finds the same state.
        EXTENDER.set(Some((extender, sent)));
    }
    if status != StatusCode::OK {
        assert!(
            matches!(
                status,
                StatusCode::BAD_REQUEST | StatusCode::SERVICE_UNAVAILABLE
            ),
            "answered {status}"
        );
        let error = world::error_in(&answer);
        assert!(!error.is_empty(), "a refusal without a reason");
        return Verdict::Refused;
    }
    let answer: Value = serde_json::from_slice(&answer).expect("an answer in JSON");
    let answered = victims(&answer, "NodeNameToMetaVictims").expect("victims by node");
    if let Some(asked) = asked(body) {
        check_answer(&asked, &answered);
    }
    Verdict::Accepted
}

fn check_answer(asked: &Asked, answered: &BTreeMap<String, Vec<String>>) {
    for (node, victims) in answered {
        let named = asked.nodes.get(node).expect("a node that was named");
        assert!(!victims.is_empty(), "kube-scheduler fails at no victims");
        for victim in victims {
            let held = HOLDERS.iter().find(|(uid, ..)| uid == victim);
            match held {
                Some((_, on, may_go)) if asked.is_of_world => {
                    assert!(*may_go && on == node, "{victim} from {node}");
                }
                _ => assert!(named.contains(victim), "{victim} was not named"),
            }
        }
    }
}

/// What the body asks, read independently of the extender.
struct Asked {
    /// Whether the pod is the one that the world knows, and asks for cards. For other pods the scheduler's victims are
    /// accepted.
    is_of_world: bool,
    nodes: BTreeMap<String, Vec<String>>,
}

/// `None` if the body is broken in a place that the extender does not read.
fn asked(body: &[u8]) -> Option<Asked> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let pod = body.get("Pod").or_else(|| body.get("pod"))?;
    let nodes = [
        "NodeNameToMetaVictims",
        "nodeNameToMetaVictims",
        "NodeNameToVictims",
        "nodeNameToVictims",
    ];
    let nodes = nodes.iter().find_map(|field| victims(&body, field))?;
    Some(Asked {
        is_of_world: pod.pointer("/metadata/uid")? == "uid-a" && asks_for_cards(pod),
        nodes,
    })
}

fn asks_for_cards(pod: &Value) -> bool {
    let pod: Result<slim::Pod, _> = serde_json::from_value(pod.clone());
    pod.is_ok_and(|pod| {
        let dialects = gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        });
        matches!(PodFacts::new(&pod, &dialects).ask, Ok(Some(_)))
    })
}

/// The uids of the victims on each node.
fn victims(body: &Value, field: &str) -> Option<BTreeMap<String, Vec<String>>> {
    let nodes = body.get(field)?.as_object()?;
    let uid = |pod: &Value| {
        let uid = pod.get("UID").or_else(|| pod.get("uid"));
        let uid = uid.or_else(|| pod.pointer("/metadata/uid"));
        uid.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let uids = |victims: &Value| {
        let pods = victims.get("Pods").or_else(|| victims.get("pods"));
        let pods = pods.and_then(Value::as_array);
        pods.into_iter().flatten().map(uid).collect()
    };
    let nodes = nodes
        .iter()
        .map(|(node, victims)| (node.clone(), uids(victims)));
    Some(nodes.collect())
}

/// The answers of an API server that has every pod, always with the same uid, no budgets, and accepts every change.
fn answer(_: &Method, uri: &Uri) -> Value {
    match api::parts(uri).as_slice() {
        ["", "apis", "policy", ..] => json!({
            "kind": "PodDisruptionBudgetList", "apiVersion": "policy/v1", "metadata": {}, "items": []
        }),
        [namespace, "pods", name, ..] => world::pod(namespace, name),
        _ => json!({"kind": "Event", "apiVersion": "v1", "metadata": {}, "involvedObject": {}}),
    }
}

fn check_request(method: &Method, uri: &Uri) {
    let parts = api::parts(uri);
    let names: &[&str] = match (method.as_str(), parts.as_slice()) {
        ("GET", ["", "apis", "policy", "v1", "poddisruptionbudgets"]) => &[],
        ("GET", [namespace, "pods", name]) | ("PATCH", [namespace, "pods", name, "status"]) => {
            &[namespace, name]
        }
        ("POST", [namespace, "events"]) => &[namespace],
        _ => panic!("{method} {uri} is no request about the pod"),
    };
    api::check_names(uri, names);
}
