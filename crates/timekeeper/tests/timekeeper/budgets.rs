//! What budgets report, and who pays.

use gpushare_core::names;
use gpushare_ledger::journal::Leg;
use gpushare_ledger::money::Amount;
use gpushare_ledger::store::{Change, Grant};
use gpushare_testkit::cluster::Objects;
use kube::ResourceExt;
use serde_json::json;

use crate::world::{DAY, WHOLE, World, real_now, until};

#[tokio::test]
async fn a_budget_is_exhausted_to_the_second_and_restored_with_its_next_period() {
    let world = World::with_a_pod(1_000).await;
    let running = world.start_at(999);
    let almost = world.until_remaining("a", 1).await;
    assert!(!almost.exhausted);
    let end = almost.exhausts_at.unwrap().0.as_second();
    assert_eq!(end, world.base + 1_000);
    world.at(1_000);
    let over = world.until_exhausted("a").await;
    let mut conditions = over.conditions.iter();
    let exhausted = conditions
        .find(|condition| condition.type_ == "Exhausted")
        .unwrap();
    assert_eq!(exhausted.status, "True");
    assert_eq!(
        exhausted.last_transition_time.0.as_second(),
        world.base + 1_000
    );
    until("an event says so", async || {
        world.events("a").await == ["Exhausted"]
    })
    .await;
    world.finish("p", 1_100).await;
    world.at(DAY);
    let next = world.until_restored("a").await;
    assert_eq!(next.remaining_seconds, Some(1_000));
    until("events say so", async || {
        let mut events = world.events("a").await;
        events.sort();
        events == ["Exhausted", "PeriodOpened", "Restored"]
    })
    .await;
    world.ends_with(running, &[("p", 1_100, 1_100_000)]).await;
}

#[tokio::test]
async fn the_status_of_an_exhausted_budget_is_written_once_however_long_that_lasts() {
    let world = World::new().await;
    world.budget("root", 100, json!({})).await;
    world.paying("a", 1_000, json!({"parent": "root"})).await;
    world.budget("witness", 1, json!({})).await;
    world.running("p", WHOLE, 0).await;
    world.finish("p", 100).await;
    let running = world.start_at(200);
    for budget in ["root", "a"] {
        world
            .until_status(budget, "it is exhausted", |status| {
                status.exhausted && status.used_seconds == Some(100)
            })
            .await;
    }
    let versions = async || {
        let version = async |name| world.budgets().get(name).await.unwrap().resource_version();
        (version("root").await, version("a").await)
    };
    let written = versions().await;
    for second in 201..240 {
        world.at(second);
        // A round that has seen the new amount of this budget has seen the new time too.
        let amount = json!({"spec": {"amount": second}});
        world.budgets().merge("witness", amount).await;
        world.until_remaining("witness", second).await;
    }
    assert_eq!(versions().await, written);
    // It is a forecast, and there is nothing left to forecast.
    assert_eq!(world.status("root").await.exhausts_at, None);
    running.stop().await;
}

#[tokio::test]
async fn a_grant_restores_a_budget_at_once() {
    let world = World::with_an_ended_pod(100, 100).await;
    let running = world.start_at(100);
    world.until_exhausted("a").await;
    let grant = Grant {
        id: "g".to_owned(),
        leg: Leg::new("a", world.base),
        amount: Amount::from_seconds(50).unwrap(),
        author: "admin".to_owned(),
        reason: "a deadline".to_owned(),
    };
    running
        .timekeeper
        .record(vec![Change::Grant(grant)])
        .await
        .unwrap();
    let restored = world.until_restored("a").await;
    assert_eq!(restored.remaining_seconds, Some(50));
    running.stop().await;
}

#[tokio::test]
async fn what_is_charged_counts_for_the_parent_and_its_exhaustion_for_the_child() {
    let world = World::new().await;
    world.budget("root", 200, json!({})).await;
    let child = json!({"parent": "root"});
    world.paying("child", 3_600, child).await;
    world.running("p", WHOLE, 0).await;
    let running = world.start_at(150);
    world.until_used("root", 0, 150).await;
    world.at(250);
    let child = world.until_exhausted("child").await;
    assert_eq!(child.remaining_seconds, Some(3_350));
    let told = child
        .conditions
        .iter()
        .any(|condition| condition.message.contains("budget root"));
    assert!(told, "{:?}", child.conditions);
    running.stop().await;
}

#[tokio::test]
async fn a_budget_pays_for_a_pod_from_its_creation_on_and_keeps_its_object_from_then() {
    let world = World::new().await;
    // In real time, because the API server dates the creation of a budget in real time.
    let bound = real_now() - 2_000 - world.base;
    world.running_with("p", WHOLE, &[], bound).await;
    let running = world.start_at(bound + 1_500);
    until("the time before is charged to nobody", async || {
        let mut charged = world.statement().await.into_iter();
        charged.any(|(_, seconds, _)| seconds > 900)
    })
    .await;
    // A rolling window, so that no midnight comes between, whatever time it is.
    let rolling = json!({"period": {"kind": "Rolling", "window": "7d"}});
    let budget = world.paying("a", 36_000, rolling).await;
    let created = budget.creation_timestamp().unwrap().0.as_second() - world.base;
    world.at(created + 250);
    until("the pod is kept", async || {
        world.pod("p").await.finalizers() == [names::METERING]
    })
    .await;
    world.finish("p", created + 1_000).await;
    world.at(created + 1_200);
    world.until_released("p").await;
    let whole = created + 1_000 - bound;
    world.until_statement(&[("p", whole, whole * 1_000)]).await;
    world.until_used("a", 1_000, 0).await;
    running.stop().await;
}

#[tokio::test]
async fn a_mistake_in_a_budget_is_said_and_unsaid_when_it_is_corrected() {
    let world = World::with_budget(3_600).await;
    let orphan = json!({"parent": "nobody"});
    world.paying("b", 3_600, orphan).await;
    let running = world.start();
    world.until_not_ready("a", "AmbiguousNamespaces").await;
    world.until_not_ready("b", "ParentMissing").await;
    world.budgets().delete_now("b").await;
    let good = world.until_charged("a").await;
    assert_eq!(good.observed_generation, Some(1));
    let more = json!({"spec": {"amount": 7_200}});
    world.budgets().merge("a", more).await;
    let raised = world.until_status("a", "it has more", |status| {
        status.observed_generation == Some(2)
    });
    assert_eq!(raised.await.remaining_seconds, Some(7_200));
    running.stop().await;
}

#[tokio::test]
async fn a_namespace_without_a_budget_is_metered_and_nobody_pays() {
    let world = World::new().await;
    world
        .budget("other", 3_600, json!({"namespaces": {"names": ["b"]}}))
        .await;
    world.running_with("p", WHOLE, &[], 0).await;
    let running = world.start_at(400);
    world.until_statement(&[("p", 300, 300_000)]).await;
    world.until_used("other", 0, 0).await;
    assert!(world.pod("p").await.finalizers().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_status_that_does_not_change_is_not_written_again() {
    use gpushare_apiserver::Verb;
    let world = World::with_budget(3_600).await;
    let running = world.start();
    world.until_used("a", 0, 0).await;
    let written = || {
        world
            .server
            .requests()
            .count(Verb::Patch, "gpubudgets/status")
    };
    let before = written();
    // Rounds go on: each of these pods is seen and released by one.
    for number in 0..5 {
        let name = format!("p{number}");
        world.create(&name, WHOLE).await;
        world.delete(&name).await;
        world.until_gone(&name).await;
    }
    assert_eq!(written(), before);
    running.stop().await;
}
