//! Balances and statements: the numbers, and that they add up.

use axum::body::Body;
use axum::http::Request;
use gpushare_ledger::money::{Amount, Rate};
use gpushare_ledger::store::Change;
use gpushare_timekeeper::api::Pod;
use serde_json::json;

use crate::world::{HOUR, NOVEMBER, NOW, World, charge};

const OF_NOVEMBER: &str = "/v1/namespaces/a/statement?month=2026-11";

#[tokio::test]
async fn a_balance_has_every_part_and_they_add_up() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    {
        let mut memory = world.memory.lock();
        let blue = memory.budgets.get_mut("blue").unwrap();
        blue.held = Amount::from_micros(1_500_000);
        blue.rate = Rate::ONE;
    }
    world.granted("blue", json!(600)).await;
    let told = world.good("tenant", "/v1/namespaces/a/budget").await;
    assert_eq!(
        told,
        json!({
            "namespace": "a", "budget": "blue", "whenExhausted": "Demote",
            "amount": "72000", "granted": "600", "carriedOver": "0",
            "used": "3600", "held": "1.5", "remaining": "68998.5",
            "exhausted": false, "exhaustsAt": "2026-11-17T04:09:59Z",
            "periodStarts": "2026-11-01T00:00:00Z", "periodEnds": "2026-12-01T00:00:00Z",
            "at": "2026-11-16T09:00:00Z",
        })
    );
}

#[tokio::test]
async fn what_was_charged_since_it_was_held_does_not_count_twice() {
    let world = World::start().await;
    {
        let mut memory = world.memory.lock();
        let blue = memory.budgets.get_mut("blue").unwrap();
        blue.held = Amount::from_seconds(3_600).unwrap();
        blue.used = Some((NOVEMBER, Amount::ZERO));
    }
    world.charge("a", "train", NOVEMBER, 2).await;
    let told = world.good("tenant", "/v1/namespaces/a/budget").await;
    let parts = [&told["held"], &told["used"], &told["remaining"]];
    assert_eq!(parts, ["3600", "0", "68400"]);
    // What was counted for another period does not apply to the current one.
    let blue = world.memory.lock().budgets.get_mut("blue").map(|blue| {
        blue.used = Some((NOVEMBER - 1, Amount::ZERO));
    });
    assert!(blue.is_some());
    let told = world.good("tenant", "/v1/namespaces/a/budget").await;
    assert_eq!(told["used"], "3600");
}

#[tokio::test]
async fn an_exhausted_ancestor_exhausts_what_pays_from_it() {
    let world = World::start().await;
    let (start, end) = (NOVEMBER, NOVEMBER + 200 * HOUR);
    world
        .write(vec![charge("c", "big", start, end, &["all"])])
        .await;
    let told = world.good("tenant", "/v1/namespaces/a/budget").await;
    assert_eq!(told["remaining"], "72000");
    assert_eq!(told["exhausted"], true);
    let all = world.good("chief", "/v1/budgets").await;
    let all_budgets = all["budgets"].as_array().unwrap();
    let names: Vec<_> = all_budgets.iter().map(|one| &one["budget"]).collect();
    assert_eq!(names, ["all", "blue", "red", "week"]);
    assert_eq!(all["budgets"][0]["remaining"], "0");
}

#[tokio::test]
async fn a_rolling_window_has_no_end_and_always_its_amount() {
    let world = World::start().await;
    let told = world.good("chief", "/v1/budgets/week").await;
    assert_eq!([&told["amount"], &told["remaining"]], ["25200", "25200"]);
    assert_eq!(told["periodEnds"], json!(null));
}

#[tokio::test]
async fn a_pod_learns_how_its_budget_stands_and_when_it_must_go() {
    let world = World::start().await;
    let key = ("a".to_owned(), "train".to_owned());
    let ends = Pod {
        evict_at: Some(NOW + 600),
    };
    world.memory.lock().pods.insert(key, ends);
    let path = "/v1/namespaces/a/pods/train";
    let told = world.good("system:serviceaccount:a:default", path).await;
    assert_eq!(
        told,
        json!({
            "namespace": "a", "pod": "train",
            "budget": {
                "name": "blue", "whenExhausted": "Demote", "remaining": "72000", "remainingSeconds": 72000,
                "exhausted": false, "exhaustsAt": null, "periodEnds": "2026-12-01T00:00:00Z",
            },
            "overBudget": false, "evictAt": "2026-11-16T09:10:00Z",
        })
    );
    let free = ("free".to_owned(), "p".to_owned());
    world.memory.lock().pods.insert(free, Pod::default());
    let told = world.good("tenant", "/v1/namespaces/free/pods/p").await;
    assert_eq!(told["budget"], json!(null));
    assert_eq!(told["overBudget"], false);
}

#[tokio::test]
async fn where_no_budget_pays_that_is_said() {
    let world = World::start().await;
    let told = world.get("tenant", "/v1/namespaces/free/budget").await;
    assert!(told.refused(404).contains("nothing limits it"));
    assert_eq!(told.json()["reason"], "NoBudget");
    let told = world.get("tenant", "/v1/namespaces/torn/budget").await;
    assert!(told.refused(404).contains("several budgets"));
    let told = world.get("chief", "/v1/namespaces/none/budget").await;
    assert!(told.refused(404).contains("no namespace"));
}

#[tokio::test]
async fn a_statement_is_exact_and_its_total_is_the_sum_of_its_lines() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER - HOUR, 3).await;
    world.charge("a", "eval", NOVEMBER + 10 * HOUR, 1).await;
    world.charge("b", "other", NOVEMBER, 1).await;
    let told = world.good("tenant", OF_NOVEMBER).await;
    let cards = json!([{"id": "GPU-1", "model": "Tesla T4", "memoryMiB": 8_192, "ofMemoryMiB": 16_384, "corePercent": 50}]);
    assert_eq!(
        told,
        json!({
            "namespace": "a", "from": "2026-11-01T00:00:00Z", "to": "2026-12-01T00:00:00Z",
            "lines": [
                {"namespace": "a", "pod": "train", "podUid": "uid-train", "from": "2026-11-01T00:00:00Z",
                 "to": "2026-11-01T02:00:00Z", "seconds": 7200, "rate": "0.5", "formula": "weighted(1,3)/1", "amount": "3600", "cards": cards},
                {"namespace": "a", "pod": "eval", "podUid": "uid-eval", "from": "2026-11-01T10:00:00Z",
                 "to": "2026-11-01T11:00:00Z", "seconds": 3600, "rate": "0.5", "formula": "weighted(1,3)/1", "amount": "1800", "cards": cards},
            ],
            "totalSeconds": 10800, "total": "5400",
        })
    );
    let second = "/v1/namespaces/a/statement?from=2026-11-01T00:00:00Z&to=2026-11-01T00:00:01Z";
    assert_eq!(world.good("tenant", second).await["total"], "0.5");
    let october = world
        .get("tenant", "/v1/namespaces/a/statement?month=2026-10")
        .await;
    assert_eq!(october.good()["total"], "1800");
}

#[tokio::test]
async fn a_month_begins_where_the_budget_says() {
    let world = World::start().await;
    let spec = json!({"amount": "20h", "period": {"timeZone": "Asia/Tokyo"}});
    let (name, budget) = crate::world::budget("blue", &spec, &[]);
    world.memory.lock().budgets.insert(name, budget);
    let told = world.good("tenant", OF_NOVEMBER).await;
    assert_eq!(told["from"], "2026-10-31T15:00:00Z");
}

#[tokio::test]
async fn a_statement_as_csv_has_a_row_for_each_line_and_the_total() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    let expected = "row,namespace,pod,pod_uid,from,to,seconds,rate,formula,gpu_seconds,cards\r\n\
        charge,a,train,uid-train,2026-11-01T00:00:00Z,2026-11-01T02:00:00Z,7200,0.5,\"weighted(1,3)/1\",3600,\
        \"GPU-1 (Tesla T4, 8192 of 16384 MiB, 50 %)\"\r\n\
        total,a,,,2026-11-01T00:00:00Z,2026-12-01T00:00:00Z,7200,,,3600,\r\n";
    let told = world
        .get("tenant", "/v1/namespaces/a/statement?format=csv")
        .await;
    assert_eq!(told.text, expected);
    let request = Request::get("/v1/namespaces/a/statement").header("Accept", "text/csv");
    let told = world.send("tenant", request, Body::empty()).await;
    assert_eq!(told.text, expected);
    assert_eq!(told.headers["content-type"], "text/csv; charset=utf-8");
    let request =
        Request::get("/v1/namespaces/a/statement?format=json").header("Accept", "text/csv");
    let told = world.send("tenant", request, Body::empty()).await;
    assert_eq!(told.good()["total"], "3600");
}

#[tokio::test]
async fn a_budgets_statement_has_what_all_its_namespaces_used_and_what_was_granted() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    world.charge("b", "other", NOVEMBER, 1).await;
    world.granted("all", json!("1h")).await;
    let told = world.good("chief", "/v1/budgets/all/statement").await;
    assert_eq!(told["total"], "5400");
    assert_eq!(told["totalSeconds"], 10_800);
    assert_eq!(told["grants"][0]["author"], "chief");
    let told = world.good("chief", "/v1/budgets/red/statement").await;
    assert_eq!(told["total"], "1800");
    assert_eq!(told["grants"], json!([]));
}

#[tokio::test]
async fn what_was_given_up_is_not_stated_as_if_it_were_nothing() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    let epoch = world.memory.lock().writes.unwrap();
    world
        .ledger
        .retain(epoch, NOVEMBER + 5 * HOUR, NOW)
        .await
        .unwrap();
    let told = world.get("tenant", OF_NOVEMBER).await;
    assert!(
        told.refused(410).contains("2026-11-01T05:00:00Z"),
        "{told:?}"
    );
    let later = "/v1/namespaces/a/statement?from=2026-11-01T05:00:00Z";
    assert_eq!(world.good("tenant", later).await["total"], "0");
    // The balance still includes it.
    let balance = world.good("tenant", "/v1/namespaces/a/budget").await;
    assert_eq!(balance["used"], "3600");
}

#[tokio::test]
async fn wrong_parameters_are_named_with_what_to_write() {
    let world = World::start().await;
    for (query, field) in [
        ("month=november", "month: "),
        ("month=2026-11&from=2026-11-01T00:00:00Z", "month: "),
        ("to=2026-11-01T00:00:00Z", "from: "),
        ("from=yesterday", "from: "),
        ("from=2026-11-02T00:00:00Z&to=2026-11-01T00:00:00Z", "to: "),
        ("from=1970-01-01T00:00:00Z", "to: "),
        ("format=xml", "format: "),
        ("mouth=2026-11", "mouth: "),
    ] {
        let told = world
            .get("tenant", &format!("/v1/namespaces/a/statement?{query}"))
            .await;
        let message = told.refused(400);
        assert!(message.starts_with(field), "{query}: {message}");
    }
    let told = world.get("chief", "/v1/export?from=soon").await;
    assert!(told.refused(400).starts_with("from: "));
}

#[tokio::test]
async fn an_export_has_every_posting_of_a_time_also_when_there_are_many() {
    let world = World::start().await;
    let mut changes: Vec<Change> = Vec::new();
    for number in 0..1_200 {
        let from = NOVEMBER + number * 10;
        changes.push(charge("a", "long", from, from + 10, &["blue", "all"]));
    }
    world.write(changes).await;
    let told = world.get("auditor", "/v1/export").await;
    assert_eq!(told.headers["content-type"], "application/x-ndjson");
    // Three amounts, and two sides of each charge.
    assert_eq!(told.text.lines().count(), 3 + 2_400);
    let before = world
        .get("auditor", "/v1/export?to=2026-11-16T09:00:00Z")
        .await;
    assert_eq!(before.text, "");
    let since = world
        .get("auditor", "/v1/export?from=2026-11-16T09:00:00Z")
        .await;
    assert_eq!(since.text, told.text);
}

#[tokio::test]
async fn t01_the_predecessors_path_answers_in_minutes_for_namespaces_that_there_are() {
    let world = World::start().await;
    world.charge("a", "train", NOVEMBER, 2).await;
    let told = world.good("tenant", "/budget/a").await;
    let expected = json!({"budget_available": true, "budget": 1200.0, "budget_remaining": 1140.0});
    assert_eq!(told, expected);
    let told = world.good("tenant", "/budget/free").await;
    let expected = json!({"budget_available": true, "budget": null, "budget_remaining": null});
    assert_eq!(told, expected);
    // The predecessor reported a full budget for names that do not exist.
    world.refused("chief", "/budget/made-up", 404).await;
    world.refused("tenant", "/budget/made-up", 403).await;
}
