//! Several timekeepers over one ledger.

use axum::body::Body;
use axum::http::Request;
use gpushare_core::lease::Timing;
use gpushare_kube::leader::election::Election;
use gpushare_ledger::store::database::{Database, Files};
use gpushare_ledger::store::{Batch, StoreError};
use gpushare_rig::postgres::{self, Postgres};
use gpushare_timekeeper::config::Pace;
use serde_json::json;
use tower::ServiceExt;

use crate::world::{DAY, Running, WHOLE, World, until};

/// The lease is released when its holder ends, and a holder on a busy machine does not lose it.
const LONG: Timing = Timing {
    duration: 10_000,
    renew_deadline: 7_500,
    retry: 100,
};
/// Another replica leads soon after the holder has died.
const SHORT: Timing = Timing {
    duration: 8_000,
    renew_deadline: 5_000,
    retry: 200,
};

fn election(identity: &str, timing: Timing) -> Election {
    Election {
        namespace: "kube-system".to_owned(),
        name: "timekeeper".to_owned(),
        identity: identity.to_owned(),
        timing,
    }
}

/// A PostgreSQL of the test's own, and how to open the ledger in it.
fn postgres() -> (Postgres, Database) {
    let server = Postgres::start().unwrap();
    let socket = server.socket().to_str().unwrap().replace('/', "%2F");
    let user = postgres::USER;
    let url = format!("postgresql://{user}@{socket}/postgres");
    let database = Database::parse(&url, Files::default()).unwrap();
    (server, database)
}

async fn until_it_writes(running: &Running) {
    until("it writes the ledger", async || {
        running.timekeeper.record(Vec::new()).await.is_ok()
    })
    .await;
}

async fn ready(running: &Running) -> u16 {
    let request = Request::get("/readyz").body(Body::empty()).unwrap();
    let asked = running.timekeeper.admin_router().oneshot(request).await;
    asked.unwrap().status().as_u16()
}

#[tokio::test]
async fn one_of_two_writes_and_the_other_goes_on_where_it_ended() {
    let world = World::with_a_pod(36_000).await;
    world.at(400);
    let first = world.start_with(Some(election("first", LONG)));
    until_it_writes(&first).await;
    let second = world.start_with(Some(election("second", LONG)));
    world.until_used("a", 300, 100).await;
    let refused = second.timekeeper.record(Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("does not lead"), "{refused}");
    // A Service routes every request to the replica that writes.
    assert_eq!((ready(&first).await, ready(&second).await), (200, 503));
    world.at(700);
    world.until_used("a", 600, 100).await;
    first.stop().await;
    world.at(1_000);
    until_it_writes(&second).await;
    assert_eq!(ready(&second).await, 200);
    world.until_used("a", 900, 100).await;
    world.finish("p", 1_001).await;
    world.at(1_100);
    world.until_released("p").await;
    world.until_statement(&[("p", 1_001, 1_001_000)]).await;
    second.stop().await;
}

#[tokio::test]
async fn a_writer_that_was_replaced_though_it_leads_takes_over_again_and_the_other_is_refused() {
    let world = World::with_a_pod(36_000).await;
    world.at(400);
    let running = world.start();
    world.until_used("a", 300, 100).await;
    let intruder = world.ledger().take_over("an intruder").await.unwrap();
    world.at(700);
    // The leader takes over again after a while, and then the intruder is locked out.
    world.until_used("a", 600, 100).await;
    let late = Batch {
        epoch: intruder,
        now: world.base,
        changes: Vec::new(),
    };
    let refused = world.ledger().record(late).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
    world.audit().await;
    running.stop().await;
}

#[tokio::test]
async fn of_two_on_postgresql_one_dies_at_any_moment_and_the_other_charges_the_rest_once() {
    let world = World::new().await;
    let (_server, database) = postgres();
    world.budget_of_a(36_000).await;
    world.running("p", WHOLE, 0).await;
    world.at(400);
    // Everything dies with its runtime: the lease is not released, and nothing shuts down in order.
    let dying = tokio::runtime::Runtime::new().unwrap();
    let first = {
        let ledger = database.open().await.unwrap();
        let _inside = dying.enter();
        world.start_on(ledger, Some(election("first", SHORT)), Pace::default())
    };
    until_it_writes(&first).await;
    world.until_used("a", 300, 100).await;
    let ledger = database.open().await.unwrap();
    let second = world.start_on(
        ledger.clone(),
        Some(election("second", SHORT)),
        Pace::default(),
    );
    world.at(700);
    dying.shutdown_background();
    until_it_writes(&second).await;
    world.until_used("a", 600, 100).await;
    world.finish("p", 1_001).await;
    world.at(1_100);
    world.until_released("p").await;
    let charged = World::statement_of(&ledger).await;
    assert_eq!(charged, [("p".to_owned(), 1_001, 1_001_000)]);
    assert_eq!(ledger.audit().await.unwrap(), [""; 0]);
    second.stop().await;
}

#[tokio::test]
async fn old_charges_go_when_they_are_not_to_be_kept_and_balances_stay() {
    let world = World::new().await;
    world
        .budget(
            "a",
            3_600,
            json!({"namespaces": {"names": ["a"]}, "period": {"kind": "Month"}}),
        )
        .await;
    world.running("p", WHOLE, 0).await;
    world.finish("p", 500).await;
    world.at(600);
    let pace = Pace {
        retention: Some(DAY),
        ..Pace::default()
    };
    let running = world.start_on(world.ledger(), None, pace);
    world.until_statement(&[("p", 500, 500_000)]).await;
    world.at(2 * DAY);
    world.until_statement(&[]).await;
    running.stop().await;
}
