//! Requests that cannot be served: each is clearly refused, and the extender goes on.

use axum::body::Body;
use axum::http::{Request, StatusCode};
use gpushare_extender::Extender;
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::asked::Asked;
use crate::cluster::{call, extender, get, node, pod_of_gib, post, send};
use crate::kubernetes::ExtenderFilterResult;

async fn refusal(extender: &Extender, verb: &str, body: String, expected: StatusCode) -> String {
    let (status, answer) = post(extender, verb, body).await;
    let text = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(status, expected, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["Error"].as_str().unwrap().to_owned()
}

async fn still_works(extender: &Extender) {
    let result = extender.filter(&pod_of_gib("fine", 1), &["n1"]).await;
    assert_eq!(result.node_names.unwrap(), ["n1"]);
    // Nothing is booked.
    let (_, inspect) = get(extender, "/gpushare-scheduler/inspect/n1").await;
    assert_contains(&inspect, "\"usedGPU\":0");
}

#[tokio::test]
async fn bodies_that_are_not_arguments_are_refused_by_name() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let whole = json!({"Pod": pod_of_gib("a", 1), "NodeNames": ["n1"]}).to_string();
    let truncated = whole[..whole.len() / 2].to_owned();
    let no_uid = json!({"Pod": {"metadata": {"name": "a"}}, "NodeNames": []}).to_string();
    let nameless = r#"{"Pod":{"metadata":{"uid":"u"}},"Nodes":{"items":[{"metadata":{}}]}}"#;
    for (body, expected) in [
        (String::new(), "ExtenderArgs"),
        (truncated, "ExtenderArgs"),
        ("null".to_owned(), "ExtenderArgs"),
        ("[]".to_owned(), "an object with Pod"),
        ("\u{0}\u{1}".to_owned(), "ExtenderArgs"),
        ("[".repeat(100_000), "ExtenderArgs"),
        ("{}".to_owned(), "no Pod"),
        (r#"{"Pod":null,"NodeNames":["n1"]}"#.to_owned(), "no Pod"),
        (
            r#"{"Pod":{"metadata":{"uid":"u"}}}"#.to_owned(),
            "NodeNames or Nodes",
        ),
        (
            r#"{"Pod":{"spec":7},"NodeNames":[]}"#.to_owned(),
            "ExtenderArgs",
        ),
        (no_uid, "Pod.metadata.uid"),
        (nameless.to_owned(), "a Node"),
    ] {
        for verb in ["filter", "prioritize"] {
            let sent = body.clone();
            let error = refusal(&extender, verb, sent, StatusCode::BAD_REQUEST).await;
            assert!(error.contains(expected), "{body:.60}: {error}");
        }
    }
    still_works(&extender).await;
}

#[tokio::test]
async fn binds_with_missing_or_crafted_names_are_refused() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let bind = |uid: &str, name: &str, node: &str| {
        json!({"PodUID": uid, "PodName": name, "PodNamespace": "team", "Node": node}).to_string()
    };
    for (body, expected) in [
        ("{".to_owned(), "ExtenderBindingArgs"),
        ("{}".to_owned(), "PodUID"),
        (bind("", "a", "n1"), "PodUID"),
        (bind("u", "", "n1"), "PodName"),
        (bind("u", "../../nodes/x", "n1"), "PodName"),
        (bind("u", "a?dryRun=All", "n1"), "PodName"),
        (bind("u", "a", "n 1"), "Node"),
    ] {
        let error = refusal(&extender, "bind", body, StatusCode::BAD_REQUEST).await;
        assert!(error.contains(expected), "{error}");
    }
    still_works(&extender).await;
}

#[tokio::test]
async fn a_bind_to_a_node_that_does_not_exist_is_refused_before_the_api_server_sees_it() {
    let extender = extender(&[node("n1", &[8])], &[pod_of_gib("a", 1)]);
    let body = json!({"PodUID": "uid-a", "PodName": "a", "PodNamespace": "team", "Node": "gone"});
    let error = refusal(&extender, "bind", body.to_string(), StatusCode::OK).await;
    assert_eq!(error, "gpushare: node gone does not exist");
    still_works(&extender).await;
}

#[tokio::test]
async fn a_body_past_the_limit_is_refused_with_the_way_out() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let ten_megabytes = vec![b' '; 10 * 1024 * 1024];
    let announced = Request::post("/gpushare-scheduler/filter")
        .header("content-length", ten_megabytes.len())
        .body(Body::from(ten_megabytes.clone()))
        .unwrap();
    let silent = Request::post("/gpushare-scheduler/filter")
        .body(Body::from(ten_megabytes))
        .unwrap();
    for request in [announced, silent] {
        let (status, body) = send(&extender, request).await;
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
        let body: Value = serde_json::from_slice(&body).unwrap();
        assert_contains(body["Error"].as_str().unwrap(), "nodeCacheCapable: true");
    }
    still_works(&extender).await;
}

#[tokio::test]
async fn a_large_body_within_the_limit_is_answered() {
    let extender = extender(&[node("n1", &[8])], &[]);
    let padding = "x".repeat(20_000);
    let nodes: Vec<Value> = (0..40)
        .map(|n| json!({"metadata": {"name": format!("n{n}"), "padding": padding}}))
        .collect();
    let body = json!({"Pod": pod_of_gib("a", 1), "Nodes": {"items": nodes}});
    let result: ExtenderFilterResult = call(&extender, "filter", &body).await;
    assert_eq!(result.nodes.unwrap().items.len(), 1);
    assert_eq!(result.failed_and_unresolvable_nodes.unwrap().len(), 39);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let extender = extender(&[], &[]);
    for (path, expected) in [
        ("nothing", StatusCode::NOT_FOUND),
        ("filter", StatusCode::METHOD_NOT_ALLOWED),
    ] {
        let path = format!("/gpushare-scheduler/{path}");
        assert_eq!(get(&extender, &path).await.0, expected, "{path}");
    }
}
