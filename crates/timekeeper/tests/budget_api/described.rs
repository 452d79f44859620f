//! The description says what the API does: every route, and every answer.

use std::collections::BTreeSet;

use gpushare_timekeeper::api::{openapi, routes};
use serde_json::{Value, json};

use crate::schema::{differences, named};
use crate::world::{NOVEMBER, World};

#[test]
fn every_route_is_described_and_nothing_else() {
    let document = openapi::document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.clone(), path.clone()))
        })
        .collect();
    let served: BTreeSet<(String, String)> = routes()
        .map(|(method, path)| (method.to_owned(), path.to_owned()))
        .collect();
    assert_eq!(described, served);
}

#[test]
fn every_reference_leads_to_a_schema_and_paths_name_their_parameters() {
    let document = openapi::document();
    for part in document.to_string().split("#/components/schemas/").skip(1) {
        named(&document, part.split('"').next().unwrap());
    }
    for (path, methods) in document["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            let parameters = operation["parameters"].as_array().cloned();
            let inside: Vec<Value> = parameters.unwrap_or_default();
            for parameter in inside.iter().filter(|one| one["in"] == "path") {
                let name = parameter["name"].as_str().unwrap();
                assert!(path.contains(&format!("{{{name}}}")), "{path} {name}");
            }
        }
    }
}

#[tokio::test]
async fn real_answers_are_as_described() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    let document = world.good("", "/openapi.json").await;
    assert_eq!(document, openapi::document());
    let schema_of = |path: &str, method: &str, code: u16| {
        let operation = &document["paths"][path][method];
        let answer = &operation["responses"][code.to_string()];
        answer["content"]["application/json"]["schema"].clone()
    };
    let grant = json!({"id": "one", "amount": "1h", "reason": "a deadline"});
    let budget = "/v1/budgets/{budget}";
    let namespace = "/v1/namespaces/{namespace}";
    for (method, path, asked) in [
        (
            "post",
            format!("{budget}/grants"),
            "/v1/budgets/blue/grants",
        ),
        (
            "post",
            format!("{budget}/grants"),
            "/v1/budgets/blue/grants",
        ),
        (
            "get",
            format!("{namespace}/budget"),
            "/v1/namespaces/a/budget",
        ),
        (
            "get",
            format!("{namespace}/budget"),
            "/v1/namespaces/free/budget",
        ),
        (
            "get",
            format!("{namespace}/pods/{{pod}}"),
            "/v1/namespaces/a/pods/train",
        ),
        (
            "get",
            format!("{namespace}/pods/{{pod}}"),
            "/v1/namespaces/a/pods/other",
        ),
        (
            "get",
            format!("{namespace}/statement"),
            "/v1/namespaces/a/statement",
        ),
        ("get", "/v1/budgets".to_owned(), "/v1/budgets"),
        ("get", budget.to_owned(), "/v1/budgets/week"),
        ("get", budget.to_owned(), "/v1/budgets/none"),
        (
            "get",
            format!("{budget}/statement"),
            "/v1/budgets/all/statement",
        ),
        ("get", "/budget/{namespace}".to_owned(), "/budget/a"),
        ("get", "/budget/{namespace}".to_owned(), "/budget/free"),
        (
            "post",
            "/budget/{namespace}/report".to_owned(),
            "/budget/a/report",
        ),
        (
            "post",
            "/budget/{namespace}/increase".to_owned(),
            "/budget/a/increase",
        ),
    ] {
        let told = match method {
            "post" => world.post("chief", asked, &grant).await,
            _ => world.get("chief", asked).await,
        };
        let schema = schema_of(&path, method, told.status.as_u16());
        assert!(schema.is_object(), "{asked}: {told:?} is not described");
        assert_eq!(
            differences(&document, &schema, &told.json()),
            [""; 0],
            "{asked}"
        );
    }
}

#[tokio::test]
async fn every_line_of_an_export_is_as_described() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    let grant = json!({"id": "one", "amount": "1h", "reason": "a deadline"});
    let path = "/v1/budgets/blue/grants";
    world.post("chief", path, &grant).await.good();
    let document = openapi::document();
    let export = world.get("chief", "/v1/export").await;
    let mut kinds = BTreeSet::new();
    for line in export.text.lines() {
        let posting: Value = serde_json::from_str(line).unwrap();
        let schema = named(&document, "Posting");
        assert_eq!(differences(&document, schema, &posting), [""; 0], "{line}");
        kinds.insert(posting["kind"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        kinds,
        ["charge", "grant", "issue"].map(str::to_owned).into()
    );
}

#[test]
fn a_grant_as_described_differs_from_one_that_is_not() {
    let document = openapi::document();
    let schema = named(&document, "GrantRequest");
    assert_eq!(
        differences(
            &document,
            schema,
            &json!({"id": "1", "amount": 5, "reason": "r"})
        ),
        [""; 0]
    );
    let wrong = json!({"id": 1, "amount": "5h", "author": "me"});
    assert_eq!(differences(&document, schema, &wrong).len(), 3);
    let wrong = json!({"id": "a/b", "amount": 0, "reason": ""});
    assert_eq!(differences(&document, schema, &wrong).len(), 3);
}
