//! Two teams on two cards, one of them over its budget.

use e2e::budget_cluster::{held, wait_held_a_second};
use e2e::calendar::day;
use e2e::manifest::{aliyun, pod, running};
use e2e::world::recorded_card;
use e2e::{Kubectl, wait};
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
    poor.apply(&never_restarted(running("first", "sleep 3", aliyun(8))));
    let first = poor.wait_charged("first");
    assert_eq!(first["spec"]["priorityClassName"], "gpushare-in-budget");
    poor.wait_exhausted();
    poor.wait_for_class("gpushare-over-budget");

    // A card is idle, so the poor team's next pod still runs, with a priority below all others.
    let late = poor.runs(&never_restarted(pod("late", aliyun(5))));
    assert_eq!(late["spec"]["priorityClassName"], "gpushare-over-budget");
    assert_eq!(late["spec"]["priority"], -1000);
    assert_eq!(late["spec"]["preemptionPolicy"], "Never");

    // A pod of the paying team needs more than either card has left. Of the two running pods, the one over budget is
    // evicted.
    rich.runs(&never_restarted(pod("neighbour", aliyun(5))));
    // The timekeeper is frozen, so that the evicted pod stays visible.
    timekeeper.freeze();
    let worker = rich.runs(&never_restarted(pod("worker", aliyun(6))));
    assert_eq!(recorded_card(&worker), recorded_card(&late));
    let evicted = poor.wait_pod("late", "it was evicted and has ended", |pod| {
        let finished = &pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"];
        !pod["metadata"]["deletionTimestamp"].is_null() && finished.is_string()
    });
    let disrupted = evicted["status"]["conditions"].as_array().unwrap();
    let disrupted = disrupted
        .iter()
        .find(|one| one["type"] == "DisruptionTarget");
    assert_eq!(disrupted.unwrap()["reason"], "EvictionByEvictionAPI");
    timekeeper.thaw();
    poor.wait_gone("late");
    let charged = || timekeeper.seconds_of(&poor.name, "late");
    wait::until_seen("what it held is charged", charged, |seconds| {
        *seconds == held(&evicted)
    });

    // The paying team's pods were left alone, and are done.
    for name in ["neighbour", "worker"] {
        let left_alone = rich.pod(name).unwrap();
        assert!(left_alone["metadata"]["deletionTimestamp"].is_null());
        wait_held_a_second(&left_alone);
        rich.remove(name);
        assert!(timekeeper.seconds_of(&rich.name, name) > 0);
    }

    // A day later the poor team has budget again, and its pods have ordinary priority.
    timekeeper.ahead(DAY);
    poor.wait_budget("the next period has begun", |status| {
        status["exhausted"] == false && status["remainingSeconds"] == 1
    });
    poor.wait_for_class("gpushare-in-budget");
    poor.apply(&never_restarted(running("again", "sleep 2", aliyun(8))));
    timekeeper.ahead(0);
    let again = poor.wait_charged("again");
    assert_eq!(again["spec"]["priorityClassName"], "gpushare-in-budget");

    // The charges match what ran, to the second.
    let lines = timekeeper.statement(&poor.name);
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
    let team = SHARED.namespace();
    let before = team.runs(&never_restarted(pod("early", aliyun(8))));
    assert!(before["metadata"]["finalizers"].is_null());
    wait_held_a_second(&before);
    team.give_budget(&json!({"amount": "20h", "period": day()}));
    team.wait_pod("early", "its object is kept", |pod| {
        pod["metadata"]["finalizers"] == json!(["gpushare.io/metering"])
    });
    team.wait_budget("it pays", |status| status["heldSeconds"].as_i64() > Some(0));
    team.remove("early");
    let status = team.wait_budget("everything is charged", |status| status["heldSeconds"] == 0);
    let whole = timekeeper.seconds_of(&team.name, "early");
    let paid = status["usedSeconds"].as_i64().unwrap();
    assert!(0 < paid && paid < whole, "{paid} of {whole}");
    timekeeper.audit();
}
