//! Bodies that a real kube-scheduler sent, with their original resource (not ours) and with ours instead.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{call, extender, node, post};
use crate::kubernetes::{
    ExtenderBindingResult, ExtenderFilterResult, ExtenderPreemptionResult, HostPriorityList,
};

const BY_NAME: &str = include_str!("../samples/cache/001-filter.json");
const RETRIED: &str = include_str!("../samples/reject/002-filter.json");
const WHOLE: &str = include_str!("../samples/nocache/001-filter.json");
const PRIORITIZE_BY_NAME: &str = include_str!("../samples/cache/002-prioritize.json");
const PRIORITIZE_WHOLE: &str = include_str!("../samples/nocache/002-prioritize.json");
const BIND: &str = include_str!("../samples/cache/003-bind.json");

/// Every body of every capture, as (name, text).
fn all() -> Vec<(String, String)> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let within = |folder: PathBuf| {
        fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let paths = within(samples).flat_map(within);
    let named = paths.map(|path| {
        (
            path.display().to_string(),
            fs::read_to_string(path).unwrap(),
        )
    });
    named.collect()
}

/// The answer as Kubernetes' own type would take it.
fn decodes<T: DeserializeOwned>(answer: &[u8]) -> bool {
    serde_json::from_slice::<T>(answer).is_ok()
}

#[tokio::test]
async fn every_captured_body_gets_an_answer_that_kubernetes_can_decode() {
    let extender = extender(&[node("fake-1", &[16]), node("fake-2", &[24])], &[]);
    let mut checked = 0;
    // Preempt is left out: to answer for pods of ours it needs an API server.
    let mut bodies = all();
    bodies.retain(|(name, _)| !name.ends_with("-preempt.json"));
    for (name, body) in bodies {
        let ours = body.replace("example.com/gpu-mem", "aliyun.com/gpu-mem");
        let mut verbs = ["filter", "prioritize", "bind"].into_iter();
        let verb = verbs.find(|verb| name.contains(verb)).unwrap();
        for body in [body, ours] {
            let (status, answer) = post(&extender, verb, body).await;
            let decoded = match verb {
                "filter" => decodes::<ExtenderFilterResult>(&answer),
                "prioritize" => decodes::<HostPriorityList>(&answer),
                _ => decodes::<ExtenderBindingResult>(&answer),
            };
            let answer = String::from_utf8_lossy(&answer);
            assert!(status == 200 && decoded, "{name}: {status} {answer}");
            checked += 1;
        }
    }
    assert_eq!(checked, 2 * 20, "a capture is missing");
}

#[tokio::test]
async fn victims_for_a_pod_that_asks_for_nothing_of_ours_stay_as_the_scheduler_chose_them() {
    let extender = extender(&[node("fake-1", &[16]), node("fake-2", &[24])], &[]);
    let mut bodies = all();
    bodies.retain(|(name, _)| name.ends_with("-preempt.json"));
    assert_eq!(bodies.len(), 2, "a capture is missing");
    for (name, body) in bodies {
        let sent = as_sent(&body);
        let result: ExtenderPreemptionResult = call(&extender, "preempt", &sent).await;
        assert_eq!(result.nodes(), ["fake-1", "fake-2"], "{name}");
        for node in result.nodes() {
            let by_uid = &sent["NodeNameToMetaVictims"][node]["Pods"][0]["UID"];
            let whole = &sent["NodeNameToVictims"][node]["Pods"][0]["metadata"]["uid"];
            let victim = by_uid.as_str().or(whole.as_str()).unwrap();
            assert_eq!(result.victims(node), [victim], "{name}");
        }
    }
}

fn as_sent(body: &str) -> Value {
    serde_json::from_str(body).unwrap()
}

fn ours(body: &str) -> Value {
    as_sent(&body.replace("example.com/gpu-mem", "aliyun.com/gpu-mem"))
}

#[tokio::test]
async fn a_pod_that_asks_for_nothing_of_ours_passes_everywhere() {
    let extender = extender(&[], &[]);
    for body in [BY_NAME, RETRIED] {
        let result: ExtenderFilterResult = call(&extender, "filter", &as_sent(body)).await;
        assert_eq!(result.node_names.unwrap(), ["fake-1", "fake-2"]);
        assert_eq!(result.error, "");
    }
}

#[tokio::test]
async fn names_are_answered_with_names() {
    let extender = extender(&[node("fake-1", &[16]), node("fake-2", &[16, 24])], &[]);
    let result: ExtenderFilterResult = call(&extender, "filter", &ours(BY_NAME)).await;
    let refused = result.refused();
    assert_eq!(result.node_names.unwrap(), ["fake-2"]);
    assert!(result.nodes.is_none(), "names only");
    assert!(
        result.failed_nodes.unwrap().is_empty(),
        "preemption cannot help"
    );
    assert_eq!(
        refused["fake-1"],
        "gpushare: no card has 20480 MiB of memory in all, the most is 16384"
    );
}

#[tokio::test]
async fn whole_nodes_are_answered_with_the_same_nodes() {
    let extender = extender(&[node("fake-1", &[4]), node("fake-2", &[8])], &[]);
    let body = ours(WHOLE);
    let result: ExtenderFilterResult = call(&extender, "filter", &body).await;
    assert!(result.node_names.is_none());
    assert!(result.refused().contains_key("fake-1"));
    assert_eq!(
        result.nodes.unwrap().items,
        [body["Nodes"]["items"][1].clone()]
    );
}

#[tokio::test]
async fn both_forms_are_prioritized() {
    let extender = extender(&[node("fake-1", &[40]), node("fake-2", &[24])], &[]);
    for body in [PRIORITIZE_BY_NAME, PRIORITIZE_WHOLE] {
        let scores: HostPriorityList = call(&extender, "prioritize", &ours(body)).await;
        let scores: Vec<_> = scores
            .iter()
            .map(|one| (one.host.as_str(), one.score))
            .collect();
        assert_eq!(scores, [("fake-2", 10)]);
    }
}

#[tokio::test]
async fn a_bind_is_understood_and_its_failure_is_readable() {
    let extender = extender(&[node("fake-1", &[40])], &[]);
    let (status, body) = post(&extender, "bind", BIND).await;
    assert_eq!(
        status, 200,
        "the scheduler drops the body of any other answer"
    );
    let body: Value = serde_json::from_slice(&body).unwrap();
    let error = body["Error"].as_str().unwrap();
    assert!(
        error.starts_with("gpushare: cannot read pod lab/p1"),
        "{error}"
    );
    assert_eq!(body, json!({"Error": error}));
}
