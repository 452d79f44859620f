use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use gpushare_core::gpu::{self, AliyunUnit};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::decide::Rules;

/// As a real API server sends them: a pod with a name, and a pod of a ReplicaSet, which only has a name prefix.
const NAMED: &str = include_str!("../../tests/reviews/named.json");
const GENERATED: &str = include_str!("../../tests/reviews/generated.json");

fn webhook() -> Webhook {
    let rules = Rules {
        dialects: gpu::dialects(AliyunUnit::GiB),
        band: i32::MIN..=1_000_000_000,
        sidecar: None,
    };
    let webhook = Webhook::new(rules, 64 * 1024);
    webhook.load(&[], &[], &[]);
    webhook
}

async fn post(body: impl Into<Body>) -> (StatusCode, String) {
    let request = HttpRequest::post("/mutate").body(body.into()).unwrap();
    let response = webhook().router().oneshot(request).await.unwrap();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

async fn answer_to(review: &Value) -> Value {
    let (status, body) = post(review.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["kind"], "AdmissionReview");
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

/// A real review with other limits in the first container.
fn with_limits(sample: &str, limits: &Value) -> Value {
    let mut review: Value = serde_json::from_str(sample).unwrap();
    review["request"]["object"]["spec"]["containers"][0]["resources"] =
        json!({"limits": limits, "requests": limits});
    review
}

fn patch_of(response: &Value) -> Value {
    let patch = STANDARD.decode(response["patch"].as_str().unwrap());
    serde_json::from_slice(&patch.unwrap()).unwrap()
}

#[tokio::test]
async fn real_reviews_of_pods_that_are_not_ours_are_allowed_as_they_are() {
    for sample in [NAMED, GENERATED] {
        let answer = answer_to(&serde_json::from_str(sample).unwrap()).await;
        assert_eq!(answer["allowed"], true);
        assert_eq!(answer.get("patch"), None);
    }
}

#[tokio::test]
async fn real_reviews_of_pods_that_are_ours_get_one_patch() {
    for sample in [NAMED, GENERATED] {
        let review = with_limits(sample, &json!({"gpushare.io/gpu-mem": "5"}));
        let answer = answer_to(&review).await;
        assert_eq!(answer["allowed"], true);
        assert_eq!(answer["patchType"], "JSONPatch");
        let add = |list: &str| {
            let path = format!("/spec/containers/0/resources/{list}/gpushare.io~1gpu");
            json!({"op": "add", "path": path, "value": "1"})
        };
        assert_eq!(patch_of(&answer), json!([add("limits"), add("requests")]));
    }
}

#[tokio::test]
async fn a_refusal_is_an_answer_with_code_reason_and_message() {
    let review = with_limits(NAMED, &json!({"aliyun.com/gpu-mem": "0"}));
    let answer = answer_to(&review).await;
    assert_eq!(answer["allowed"], false);
    assert_eq!(answer["status"]["code"], 422);
    let message = answer["status"]["message"].as_str().unwrap();
    assert!(message.contains("aliyun.com/gpu-mem"), "{message}");
}

#[tokio::test]
async fn updates_and_subresources_of_pods_are_never_touched() {
    for (field, value) in [
        ("operation", "UPDATE"),
        ("operation", "DELETE"),
        ("subResource", "status"),
    ] {
        let mut review = with_limits(NAMED, &json!({"gpushare.io/gpu-mem": "0"}));
        review["request"][field] = json!(value);
        let answer = answer_to(&review).await;
        assert_eq!(answer["allowed"], true, "{field} {value}");
        assert_eq!(answer.get("patch"), None);
    }
}

fn workload(group: &str, kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "u", "kind": {"group": group, "version": "v1", "kind": kind},
            "operation": "UPDATE", "namespace": "team-a", "name": "w",
            "object": {"metadata": {"name": "w"}, "spec": spec},
        },
    })
}

#[tokio::test]
async fn every_kind_with_a_template_is_warned_about_and_allowed() {
    let limits = json!({"tencent.com/vcuda-core": "150"});
    let template =
        json!({"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}});
    for (group, kind) in WORKLOADS {
        let spec = if kind == "CronJob" {
            json!({"jobTemplate": {"spec": {"template": template}}})
        } else {
            json!({"template": template})
        };
        let mut review = workload(group, kind, &spec);
        let answer = answer_to(&review).await;
        assert_eq!(answer["allowed"], true, "{kind}");
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.contains("vcuda-core"), "{kind}: {warning}");
        // Nobody reads warnings about an object that a controller created.
        review["request"]["object"]["metadata"]["ownerReferences"] = json!([{"controller": true}]);
        assert_eq!(answer_to(&review).await.get("warnings"), None);
    }
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_refused_if_pods_and_passed_on_otherwise() {
    let mut review: Value = serde_json::from_str(NAMED).unwrap();
    review["request"]["object"]["spec"]["containers"] = json!("many");
    let answer = answer_to(&review).await;
    assert_eq!(answer["status"]["code"], 400, "{answer}");
    let odd = workload("apps", "Deployment", &json!({"template": 7}));
    assert_eq!(answer_to(&odd).await["allowed"], true);
    let other = workload("example.com", "Thing", &json!(null));
    assert_eq!(answer_to(&other).await["allowed"], true);
}

#[tokio::test]
async fn bodies_that_are_no_review_get_a_clear_answer() {
    for (body, expected) in [
        ("", "not an AdmissionReview"),
        ("[]", "not an AdmissionReview"),
        ("{\"kind\":", "not an AdmissionReview"),
        (r#"{"apiVersion":"v1","kind":"Pod"}"#, "a Pod of v1"),
    ] {
        let (status, answer) = post(body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(answer.contains(expected), "{body}: {answer}");
    }
    let (status, answer) = post("x".repeat(65 * 1024)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(answer.contains("--max-body-mib"), "{answer}");
}

#[tokio::test]
async fn answers_are_counted_by_outcome_and_refusals_by_reason() {
    let webhook = webhook();
    let router = webhook.router();
    let send = |body: String| {
        let request = HttpRequest::post("/mutate").body(Body::from(body)).unwrap();
        router.clone().oneshot(request)
    };
    let refused = with_limits(NAMED, &json!({"aliyun.com/gpu-mem": "0"}));
    send(refused.to_string()).await.unwrap();
    send(NAMED.to_owned()).await.unwrap();
    send("nonsense".to_owned()).await.unwrap();
    let request = HttpRequest::get("/metrics").body(Body::empty()).unwrap();
    let metrics = router.clone().oneshot(request).await.unwrap();
    let metrics = metrics.into_body().collect().await.unwrap().to_bytes();
    let metrics = String::from_utf8(metrics.to_vec()).unwrap();
    for line in [
        r#"gpushare_webhook_reviews_total{outcome="denied"} 1"#,
        r#"gpushare_webhook_reviews_total{outcome="untouched"} 1"#,
        r#"gpushare_webhook_reviews_total{outcome="unreadable"} 1"#,
        r#"gpushare_webhook_denials_total{reason="request"} 1"#,
        "gpushare_webhook_review_duration_seconds_count 2",
    ] {
        assert!(metrics.contains(line), "{line} is missing in {metrics}");
    }
}
