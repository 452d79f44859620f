//! Who may ask for what, and what attackers get.

use axum::body::Body;
use axum::http::Request;
use gpushare_apiserver::{Answer, On, Times, Verb};
use serde_json::json;

use crate::world::{NOVEMBER, Told, World};

const OWN: &str = "system:serviceaccount:a:default";
/// The balance of a namespace that is not theirs.
const FOREIGN: &str = "/v1/namespaces/b/budget";
const FOR_US: &str = "system:serviceaccount:a:default@gpushare-timekeeper";

#[tokio::test]
async fn without_a_good_token_nothing_is_told() {
    let world = World::start().await;
    let huge = "x".repeat(20_000);
    let other_audience = format!("{OWN}@vault");
    for token in ["", "garbage", "chief2", &huge, &other_audience] {
        for path in [
            "/v1/namespaces/a/budget",
            "/v1/budgets",
            "/v1/export",
            "/budget/a",
        ] {
            let told = world.get(token, path).await;
            told.refused(401);
            assert_eq!(told.headers["www-authenticate"], "Bearer");
        }
        let told = world
            .post(token, "/v1/budgets/blue/grants", &json!({}))
            .await;
        told.refused(401);
    }
    for header in ["Basic Y2hpZWY6", "Bearer", "Bearer  ", "chief"] {
        let request = Request::get("/v1/budgets").header("Authorization", header);
        world.send("", request, Body::empty()).await.refused(401);
    }
    let denied = "denials_total{reason=\"unauthenticated\"}";
    assert!(world.metrics().contains(denied));
}

#[tokio::test]
async fn a_token_for_us_is_as_good_as_one_for_the_api_server() {
    let world = World::start().await;
    for token in [OWN, FOR_US] {
        world.good(token, "/v1/namespaces/a/budget").await;
    }
}

#[tokio::test]
async fn an_account_reads_the_balance_of_its_own_namespace_and_nothing_more() {
    let world = World::start().await;
    for path in [
        "/v1/namespaces/a/budget",
        "/v1/namespaces/a/pods/train",
        "/budget/a",
    ] {
        world.good(FOR_US, path).await;
    }
    for path in [
        "/v1/namespaces/a/statement",
        "/v1/namespaces/b/budget",
        "/v1/namespaces/b/pods/train",
        "/v1/namespaces/b/statement",
        "/v1/budgets",
        "/v1/budgets/blue",
        "/v1/budgets/blue/statement",
        "/v1/export",
        "/budget/b",
    ] {
        world.refused(FOR_US, path, 403).await;
    }
    // A name that looks like an account's proves nothing.
    world.refused("forger", FOREIGN, 403).await;
}

#[tokio::test]
async fn a_refusal_names_the_right_and_is_the_same_for_what_there_is_not() {
    let world = World::start().await;
    let there = world.get("tenant", FOREIGN).await;
    assert_eq!(
        there.refused(403),
        "\"tenant\" lacks the verb \"get\" on budgetbalances.gpushare.io in the namespace \"b\": ask a budget \
         administrator for a role that grants it"
    );
    for (exists, missing) in [
        ("/v1/namespaces/b/budget", "/v1/namespaces/z/budget"),
        ("/v1/namespaces/b/statement", "/v1/namespaces/z/statement"),
        ("/v1/namespaces/b/pods/p", "/v1/namespaces/z/pods/p"),
        ("/v1/budgets/red", "/v1/budgets/zed"),
        ("/v1/budgets/red/statement", "/v1/budgets/zed/statement"),
        ("/budget/b", "/budget/z"),
    ] {
        let exists = world.refused("tenant", exists, 403).await;
        let missing = world.refused("tenant", missing, 403).await;
        let alike = |text: &str| {
            text.replace("\"b\"", "X")
                .replace("\"z\"", "X")
                .replace("\"red\"", "X")
                .replace("\"zed\"", "X")
        };
        assert_eq!(alike(&exists), alike(&missing));
    }
    let metrics = world.metrics();
    let denied = "denials_total{reason=\"forbidden\"} 13";
    assert!(metrics.contains(denied), "{metrics}");
}

#[tokio::test]
async fn t08_nobody_can_say_what_was_used() {
    let world = World::start().await;
    world.charge("b", "victim", NOVEMBER, 1).await;
    let before = world.get("chief", "/v1/budgets").await.text;
    let report = json!({"usage_factor": -1000.0, "pod_name": "victim"});
    for who in ["", "tenant", FOR_US, "chief"] {
        for path in ["/budget/b/report", "/budget/b/increase", "/budget/a/report"] {
            let message = world.post(who, path, &report).await.refused(410);
            assert!(message.contains("othing was"), "{message}");
        }
        for path in [
            "/v1/namespaces/b/budget",
            "/v1/namespaces/b/statement",
            "/v1/export",
            "/budget/b",
        ] {
            world.post(who, path, &report).await.refused(405);
        }
    }
    assert_eq!(world.get("chief", "/v1/budgets").await.text, before);
}

#[tokio::test]
async fn names_that_no_object_has_and_paths_that_there_are_not_are_refused_in_json() {
    let world = World::start().await;
    for path in [
        "/v1/namespaces/A/budget",
        "/v1/namespaces/%2e%2e%2fb/budget",
        "/v1/namespaces/%ff/budget",
    ] {
        world.refused("chief", path, 400).await;
    }
    let told = world.refused("chief", "/v2/budgets", 404).await;
    assert!(told.contains("openapi.json"), "{told}");
    let told = world.post("chief", "/v1/budgets", &json!({})).await;
    told.refused(405);
}

#[tokio::test]
async fn a_token_is_asked_for_once_in_a_while_and_rights_each_time() {
    let world = World::start().await;
    for _ in 0..5 {
        world.good("tenant", "/v1/namespaces/a/budget").await;
    }
    let count = |resource: &str| world.server.requests().count(Verb::Create, resource);
    // Once for our audience, once for the API server's.
    assert_eq!(count("tokenreviews.authentication.k8s.io"), 2);
    assert_eq!(count("subjectaccessreviews.authorization.k8s.io"), 5);
    for _ in 0..5 {
        world.good(FOR_US, "/v1/namespaces/a/budget").await;
    }
    assert_eq!(count("tokenreviews.authentication.k8s.io"), 3);
    assert_eq!(count("subjectaccessreviews.authorization.k8s.io"), 5);
}

#[tokio::test]
async fn while_the_api_server_cannot_be_asked_nobody_gets_anything() {
    let world = World::start().await;
    let tokens = On::any().resource("tokenreviews.authentication.k8s.io");
    let faults = world.server.faults();
    let fault = faults.answer(tokens, Times::Always, Answer::Unavailable);
    let told = world.get("chief", "/v1/budgets").await;
    told.refused(503);
    assert_eq!(told.headers["retry-after"], "5");
    fault.clear();
    let rights = On::any().resource("subjectaccessreviews.authorization.k8s.io");
    let fault = faults.answer(rights, Times::Always, Answer::InternalError);
    world.refused("chief", "/v1/budgets", 503).await;
    fault.clear();
    world.good("chief", "/v1/budgets").await;
}

#[tokio::test]
async fn who_asks_too_often_waits_and_others_do_not() {
    let world = World::start().await;
    // The token is cached from here on, so that all requests reach the rate limit at once.
    world.good("tenant", "/v1/namespaces/a/budget").await;
    let requests = (0..200).map(|_| world.get("tenant", "/v1/namespaces/a/budget"));
    let told = futures::future::join_all(requests).await;
    let waits = |told: &Told| told.headers.contains_key("retry-after");
    assert!(told.iter().all(|told| waits(told) == (told.status == 429)));
    let codes: Vec<u16> = told.iter().map(|told| told.status.as_u16()).collect();
    assert!(codes.contains(&429), "{codes:?}");
    assert!(codes[..29].iter().all(|code| *code == 200), "{codes:?}");
    world.good("chief", "/v1/budgets").await;
}

#[tokio::test]
async fn before_the_first_lists_nothing_is_told() {
    let world = World::start().await;
    world.memory.lock().ready = Err("the budgets have not been listed yet".to_owned());
    let message = world.refused("chief", "/v1/budgets", 503).await;
    assert!(message.contains("not been listed"), "{message}");
    world.refused("", "/v1/budgets", 401).await;
}

#[tokio::test]
async fn requests_are_counted_by_route_and_code_and_by_nothing_that_callers_choose() {
    let world = World::start().await;
    world.good("tenant", "/v1/namespaces/a/budget").await;
    world.refused("tenant", FOREIGN, 403).await;
    world.refused("tenant", "/nonsense", 404).await;
    let metrics = world.metrics();
    for line in [
        r#"api_requests_total{route="/v1/namespaces/{namespace}/budget",code="200"} 1"#,
        r#"api_requests_total{route="/v1/namespaces/{namespace}/budget",code="403"} 1"#,
        r#"api_requests_total{route="other",code="404"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}
