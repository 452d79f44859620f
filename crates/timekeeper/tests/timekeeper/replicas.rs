//! Several timekeepers over one ledger.

use gpushare_core::lease::Timing;
use gpushare_kube::leader::election::Election;
use gpushare_ledger::store::database::{Database, Files};
use gpushare_ledger::store::{Batch, StoreError};
use gpushare_rig::postgres::{self, Postgres};
use gpushare_timekeeper::config::Pace;
use serde_json::json;

use crate::world::{DAY, Running, WHOLE, World, lines, statement_of, until};

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
    running.probe("/readyz").await.0
}

#[tokio::test]
async fn one_of_two_writes_and_the_other_goes_on_where_it_ended() {
    let world = World::with_a_pod(36_000).await;
    world.at(400);
    let first = world.start_with(Some(election("first", LONG)));
    until_it_writes(&first).await;
    let second = world.start_with(Some(election("second", LONG)));
    world.charges_until(400).await;
    let refused = second.timekeeper.record(Vec::new()).await.unwrap_err();
    assert!(refused.to_string().contains("does not lead"), "{refused}");
    // A Service routes every request to the replica that writes.
    assert_eq!((ready(&first).await, ready(&second).await), (200, 503));
    world.charges_until(700).await;
    first.stop().await;
    world.at(1_000);
    until_it_writes(&second).await;
    assert_eq!(ready(&second).await, 200);
    world.charges_until(1_000).await;
    world.finish("p", 1_001).await;
    world.at(1_100);
    world.ends_with(second, &[("p", 1_001, 1_001_000)]).await;
}

#[tokio::test]
async fn a_writer_that_was_replaced_though_it_leads_takes_over_again_and_the_other_is_refused() {
    let (world, running) = World::charging(36_000, 400).await;
    let intruder = world.ledger().take_over("an intruder").await.unwrap();
    // The leader takes over again after a while, and then the intruder is locked out.
    world.charges_until(700).await;
    let late = Batch::new(intruder, world.base, Vec::new());
    let refused = world.ledger().record(late).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused}");
    world.audit().await;
    running.stop().await;
}

#[tokio::test]
async fn of_two_on_postgresql_one_dies_at_any_moment_and_the_other_charges_the_rest_once() {
    let (_server, database) = postgres();
    let world = World::with_a_pod(36_000).await;
    world.at(400);
    // Everything dies with its runtime: the lease is not released, and nothing shuts down in order.
    let dying = tokio::runtime::Runtime::new().unwrap();
    let first = {
        let ledger = database.open().await.unwrap();
        let _inside = dying.enter();
        world.start_on(ledger, Some(election("first", SHORT)), Pace::default())
    };
    until_it_writes(&first).await;
    world.charges_until(400).await;
    let ledger = database.open().await.unwrap();
    let election = Some(election("second", SHORT));
    let second = world.start_on(ledger.clone(), election, Pace::default());
    world.at(700);
    dying.shutdown_background();
    until_it_writes(&second).await;
    world.charges_until(700).await;
    world.finish("p", 1_001).await;
    world.at(1_100);
    world.until_released("p").await;
    let charged = statement_of(&ledger).await;
    assert_eq!(charged, lines(&[("p", 1_001, 1_001_000)]));
    assert_eq!(ledger.audit().await.unwrap(), [""; 0]);
    second.stop().await;
}

#[tokio::test]
async fn old_charges_go_when_they_are_not_to_be_kept_and_balances_stay() {
    let world = World::new().await;
    let monthly = json!({"period": {"kind": "Month"}});
    world.paying("a", 3_600, monthly).await;
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
