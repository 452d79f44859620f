//! Admission reviews: every review is answered with its uid, a refusal says why, and a patch can be applied to the
//! object, changes nothing of the user's, and needs no second patch.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use gpushare_core::gpu::{self, AliyunUnit, Reading};
use gpushare_core::names;
use gpushare_webhook::Webhook;
use gpushare_webhook::decide::Rules;
use gpushare_webhook::sidecar::Sidecar;
use k8s_openapi::api::core::v1::Pod;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::Verdict;

thread_local! {
    static WEBHOOK: Webhook = webhook();
}

/// A webhook that knows namespaces without a budget, within it, over it, and over one that makes pods wait.
fn webhook() -> Webhook {
    let rules = Rules {
        dialects: gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        }),
        band: -1_000_000..=1_000_000_000,
        sidecar: Some(Sidecar {
            image: "gpushare-control:1".to_owned(),
            timekeeper: "https://timekeeper".to_owned(),
            authorities: "a certificate".to_owned(),
            cpu: "1m".to_owned(),
            memory: "1Mi".to_owned(),
        }),
    };
    let webhook = Webhook::new(rules, 1024 * 1024);
    let budget = |name: &str, when: &str, exhausted: bool| {
        let spec = json!({"amount": "1h", "namespaces": {"names": [name]}, "whenExhausted": when});
        json!({"apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": name},
            "spec": spec, "status": {"exhausted": exhausted}})
    };
    let named = |name: &str| json!({"metadata": {"name": name}});
    let class = |name: &str, value: i32, policy: &str| json!({"metadata": {"name": name}, "value": value, "preemptionPolicy": policy});
    webhook.load(
        &parse([
            budget("within", "Demote", false),
            budget("over", "Demote", true),
            budget("wait", "ThrottleNew", true),
        ]),
        &parse(["free", "within", "over", "wait"].map(named)),
        &parse([
            class(names::IN_BUDGET, 0, "PreemptLowerPriority"),
            class(names::OVER_BUDGET, -1000, "Never"),
        ]),
    );
    webhook
}

fn parse<T: DeserializeOwned, const N: usize>(objects: [Value; N]) -> [T; N] {
    objects.map(|object| serde_json::from_value(object).expect("an object of ours"))
}

fn answer(body: &[u8]) -> Option<Value> {
    let review = WEBHOOK.with(|webhook| webhook.answer(body)).ok()?;
    Some(serde_json::to_value(review).expect("an answer in JSON"))
}

pub(crate) fn check(body: &[u8]) -> Verdict {
    let Some(answer) = answer(body) else {
        return Verdict::Refused;
    };
    let response = answer.get("response").expect("a response");
    let text = |pointer: &str| response.pointer(pointer).and_then(Value::as_str);
    let allowed = response.get("allowed").and_then(Value::as_bool);
    if allowed == Some(false) {
        assert!(text("/status/message").is_some_and(|why| why.starts_with("gpushare: ")));
        assert!(response.get("patch").is_none());
        return Verdict::Accepted;
    }
    // With a duplicate key, or numbers too large for common JSON readers, there is no single object to compare with.
    let Ok(question) = serde_json::from_slice::<Value>(body) else {
        return Verdict::Accepted;
    };
    let (Some(patch), false) = (text("/patch"), has_twice(body, &question)) else {
        return Verdict::Accepted;
    };
    let request = question.get("request").expect("a request");
    assert_eq!(text("/uid"), request.get("uid").and_then(Value::as_str));
    assert_eq!(request.get("operation"), Some(&json!("CREATE")));
    check_patch(&question, patch);
    Verdict::Accepted
}

fn check_patch(question: &Value, patch: &str) {
    let patch = STANDARD.decode(patch).expect("base64");
    let patch: json_patch::Patch = serde_json::from_slice(&patch).expect("a patch");
    let mut again = question.clone();
    let object = again
        .pointer_mut("/request/object")
        .expect("an object to patch");
    if serde_json::from_value::<Pod>(object.clone()).is_err() {
        // No API server sends such an object. Our type accepts it because it also reads lists as structs.
        return;
    }
    let before = object.clone();
    json_patch::patch(object, &patch).expect("the patch applies");
    for kept in [
        "/metadata/annotations",
        "/metadata/labels",
        "/metadata/name",
    ] {
        assert_eq!(before.pointer(kept), object.pointer(kept), "{kept}");
    }
    for list in ["/spec/containers", "/spec/initContainers"] {
        let names = |pod: &Value| {
            let containers = pod.pointer(list).and_then(Value::as_array).cloned();
            let names = containers
                .into_iter()
                .flatten()
                .map(|container| container.get("name").cloned());
            // Only our own container may be added.
            names
                .filter(|name| *name != Some(json!("gpushare-budget")))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&before), names(object));
    }
    let second = answer(again.to_string().as_bytes()).expect("still a review");
    let second = second.get("response").expect("a response");
    assert_eq!(second.get("allowed"), Some(&json!(true)), "{again}");
    assert_eq!(second.get("patch"), None, "{again}");
}

/// Whether the body has a duplicate key: written again, without spaces, it would then be shorter.
fn has_twice(body: &[u8], parsed: &Value) -> bool {
    let significant = |text: &[u8]| {
        text.iter()
            .filter(|byte| !byte.is_ascii_whitespace())
            .count()
    };
    significant(body) != significant(parsed.to_string().as_bytes())
}
