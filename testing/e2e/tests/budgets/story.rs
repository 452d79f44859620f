//! Two teams on two cards, one of them over its budget.

use e2e::budgeted::{held, wait_held_a_second};
use e2e::calendar::day;
use e2e::manifest::{aliyun, pod, running};
use e2e::wait;
use e2e::world::recorded_card;
use serde_json::{Value, json};

use crate::{DAY, SHARED};

fn never_restarted(mut pod: Value) -> Value {
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod
}

#[test]
fn over_budget_work_runs_while_the_card_is_idle_yields_to_others_and_is_back_with_the_next_period()
{
    let mut timekeeper = SHARED.timekeeper();
    let daily = day();
    let poor = SHARED.team(&json!({"amount": 1, "period": daily}));
    let rich = SHARED.team(&json!({"amount": "20h", "period": daily}));

    // The poor team uses up its budget.
    SHARED.create(
        &poor,
        &never_restarted(running("first", "sleep 3", aliyun(8))),
    );
    let first = SHARED.wait_charged(&poor, "first");
    assert_eq!(first["spec"]["priorityClassName"], "gpushare-in-budget");
    SHARED.wait_budget(&poor, "it is exhausted", |status| {
        status["exhausted"] == true
    });
    SHARED.wait_for_class(&poor, "gpushare-over-budget");

    // A card is idle, so the poor team's next pod still runs, with a priority below all others.
    SHARED.create(&poor, &never_restarted(pod("late", aliyun(5))));
    let late = SHARED.wait_running(&poor, "late");
    assert_eq!(late["spec"]["priorityClassName"], "gpushare-over-budget");
    assert_eq!(late["spec"]["priority"], -1000);
    assert_eq!(late["spec"]["preemptionPolicy"], "Never");

    // A pod of the paying team needs more than either card has left. Of the two running pods, the one over budget is
    // evicted.
    SHARED.create(&rich, &never_restarted(pod("neighbour", aliyun(5))));
    SHARED.wait_running(&rich, "neighbour");
    // The timekeeper is frozen, so that the evicted pod stays visible.
    timekeeper.freeze();
    SHARED.create(&rich, &never_restarted(pod("worker", aliyun(6))));
    let worker = SHARED.wait_running(&rich, "worker");
    assert_eq!(recorded_card(&worker), recorded_card(&late));
    let evicted = SHARED.wait_pod(&poor, "late", "it was evicted and has ended", |pod| {
        let finished = &pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"];
        !pod["metadata"]["deletionTimestamp"].is_null() && finished.is_string()
    });
    let disrupted = evicted["status"]["conditions"].as_array().unwrap();
    let disrupted = disrupted
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    assert_eq!(disrupted.unwrap()["reason"], "EvictionByEvictionAPI");
    timekeeper.thaw();
    SHARED.wait_gone(&poor, "late");
    wait::until("what it held is charged", || {
        let seconds = timekeeper.seconds_of(&poor, "late");
        if seconds == held(&evicted) {
            Ok(())
        } else {
            Err(seconds)
        }
    });

    // The paying team's pods were left alone, and are done.
    for name in ["neighbour", "worker"] {
        let left_alone = SHARED.pod(&rich, name).unwrap();
        assert!(left_alone["metadata"]["deletionTimestamp"].is_null());
        wait_held_a_second(&left_alone);
        SHARED.delete(&rich, name);
        SHARED.wait_gone(&rich, name);
        assert!(timekeeper.seconds_of(&rich, name) > 0);
    }

    // A day later the poor team has budget again, and its pods have ordinary priority.
    timekeeper.ahead(DAY);
    SHARED.wait_budget(&poor, "the next period has begun", |status| {
        status["exhausted"] == false && status["remainingSeconds"] == 1
    });
    SHARED.wait_for_class(&poor, "gpushare-in-budget");
    SHARED.create(
        &poor,
        &never_restarted(running("again", "sleep 2", aliyun(8))),
    );
    timekeeper.ahead(0);
    let again = SHARED.wait_charged(&poor, "again");
    assert_eq!(again["spec"]["priorityClassName"], "gpushare-in-budget");

    // The charges match what ran, to the second.
    let lines = timekeeper.statement(&poor);
    let charged: Vec<(&str, i64)> = lines
        .iter()
        .map(|line| (line.name.as_str(), line.seconds))
        .collect();
    let ran = [
        ("first", held(&first)),
        ("late", held(&evicted)),
        ("again", held(&again)),
    ];
    assert_eq!(charged, ran);
    let eighths = |name: &str| if name == "late" { 5 } else { 8 };
    for line in &lines {
        let amount = line.seconds * 1_000_000 * eighths(&line.name) / 8;
        assert_eq!(line.amount.micros(), amount, "{}", line.name);
    }
    timekeeper.audit();
    timekeeper.assert_alive();
}

#[test]
fn a_pod_that_was_there_before_its_budget_is_kept_until_it_is_charged_and_paid_for_from_then_on() {
    let timekeeper = SHARED.timekeeper();
    let namespace = SHARED.namespace();
    SHARED.create(&namespace, &never_restarted(pod("early", aliyun(8))));
    let before = SHARED.wait_running(&namespace, "early");
    assert!(before["metadata"]["finalizers"].is_null());
    wait_held_a_second(&before);
    SHARED.give_budget(&namespace, &json!({"amount": "20h", "period": day()}));
    SHARED.wait_pod(&namespace, "early", "its object is kept", |pod| {
        pod["metadata"]["finalizers"] == json!(["gpushare.io/metering"])
    });
    SHARED.wait_budget(&namespace, "it pays", |status| {
        status["heldSeconds"].as_i64() > Some(0)
    });
    SHARED.delete(&namespace, "early");
    SHARED.wait_gone(&namespace, "early");
    let status = SHARED.wait_budget(&namespace, "everything is charged", |status| {
        status["heldSeconds"] == 0
    });
    let whole = timekeeper.seconds_of(&namespace, "early");
    let paid = status["usedSeconds"].as_i64().unwrap();
    assert!(0 < paid && paid < whole, "{paid} of {whole}");
    timekeeper.audit();
}
