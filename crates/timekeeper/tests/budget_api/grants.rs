//! Grants: who may give them, that each id counts once, and who is recorded as the author.

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::world::{NOVEMBER, World};

const PATH: &str = "/v1/budgets/blue/grants";

#[tokio::test]
async fn a_grant_is_written_once_with_whoever_asked_as_its_author() {
    let world = World::start().await;
    let body = json!({"id": "ticket-7", "amount": "1h", "reason": "a deadline"});
    let told = world.post("chief", PATH, &body).await;
    assert_eq!(told.status, 201);
    let expected = json!({
        "id": "ticket-7", "budget": "blue", "amount": "3600", "author": "chief", "reason": "a deadline",
        "periodStarts": "2026-11-01T00:00:00Z", "grantedAt": "2026-11-16T09:00:00Z",
    });
    assert_eq!(told.json(), expected);
    world.memory.lock().now += 60;
    let again = world.post("chief", PATH, &body).await;
    assert_eq!((again.status.as_u16(), again.json()), (200, expected));
    let balance = world.good("chief", "/v1/budgets/blue").await;
    assert_eq!(balance["granted"], "3600");
    let grants = world.ledger.grants("blue").await.unwrap();
    assert_eq!((grants.len(), grants[0].1.leg.slot), (1, NOVEMBER));
    assert_eq!(world.ledger.audit().await.unwrap(), [""; 0]);
    // The same id for another budget is another grant.
    let told = world.post("chief", "/v1/budgets/red/grants", &body).await;
    assert_eq!(told.status, 201);
}

#[tokio::test]
async fn an_id_cannot_be_used_for_another_grant() {
    let world = World::start().await;
    let body = json!({"id": "g", "amount": "1h", "reason": "a deadline"});
    world.post("chief", PATH, &body).await.good();
    for (field, value) in [("amount", json!("2h")), ("reason", json!("another"))] {
        let mut other = body.clone();
        other[field] = value;
        let message = world.post("chief", PATH, &other).await.refused(409);
        assert!(message.starts_with("id: "), "{message}");
    }
}

#[tokio::test]
async fn those_without_the_verb_cannot_grant_also_not_to_what_there_is_not() {
    let world = World::start().await;
    let body = json!({"id": "g", "amount": "1h", "reason": "greed"});
    for who in ["tenant", "auditor", "system:serviceaccount:a:default"] {
        let message = world.post(who, PATH, &body).await.refused(403);
        assert!(
            message.contains("the verb \"grant\" on gpubudgets.gpushare.io \"blue\""),
            "{message}"
        );
        let told = world.post(who, "/v1/budgets/zed/grants", &body).await;
        told.refused(403);
    }
    assert_eq!(world.ledger.grants("blue").await.unwrap(), []);
    let told = world.post("chief", "/v1/budgets/zed/grants", &body).await;
    told.refused(404);
}

#[tokio::test]
async fn what_is_wrong_with_a_grant_is_said() {
    let world = World::start().await;
    let body = json!({"id": "g", "amount": "1h", "reason": "a deadline"});
    for (field, value, expected) in [
        ("amount", json!(-5), "amount: "),
        ("amount", json!("soon"), "amount: "),
        ("amount", json!(1.5), "the body: "),
        ("reason", json!(""), "reason: "),
        ("id", json!(""), "id: "),
        (
            "author",
            json!("somebody else"),
            "the body: unknown field `author`",
        ),
        ("used", json!(0), "the body: unknown field `used`"),
    ] {
        let mut wrong = body.clone();
        wrong[field] = value;
        let message = world.post("chief", PATH, &wrong).await.refused(400);
        assert!(message.starts_with(expected), "{message}");
    }
    for text in ["", "[]", "{", "null"] {
        let told = world
            .send("chief", Request::post(PATH), Body::from(text))
            .await;
        let message = told.refused(400);
        assert!(
            message.contains("the author is the owner of the token"),
            "{message}"
        );
        // The message names nothing that only the code knows.
        assert!(!message.contains("struct"), "{message}");
    }
    let large = json!({"id": "g", "amount": "1h", "reason": "x".repeat(20_000)});
    world.post("chief", PATH, &large).await.refused(413);
    assert_eq!(world.ledger.grants("blue").await.unwrap(), []);
}

#[tokio::test]
async fn a_replica_that_does_not_write_says_so() {
    let world = World::start().await;
    world.memory.lock().writes = None;
    let body = json!({"id": "g", "amount": "1h", "reason": "a deadline"});
    let told = world.post("chief", PATH, &body).await;
    assert!(told.refused(503).contains("another replica"));
    assert_eq!(told.headers["retry-after"], "5");
    world.good("chief", "/v1/budgets").await;
}
