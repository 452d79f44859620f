//! Each hole of the predecessor's timekeeper, closed. The tests are named by the hole's number in our analysis. The
//! holes of its API are tested together with our API.

use anyhow::ensure;
use e2e::budget_cluster::held;
use e2e::calendar::day;
use e2e::manifest::{aliyun, container, running};
use e2e::{Kubectl, Team, wait};
use serde_json::{Value, json};

use crate::{DAY, SHARED};

/// A pod that runs once and ends by itself.
fn task(name: &str, script: &str, gib: u64) -> Value {
    let mut pod = running(name, script, aliyun(gib));
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod
}

/// Lets a task run until it has ended and is charged.
fn finished(team: &Team, name: &str, script: &str, gib: u64) -> Value {
    team.apply(&task(name, script, gib));
    team.wait_charged(name)
}

fn daily(seconds: i64) -> Value {
    json!({"amount": seconds, "period": day()})
}

fn wait_succeeded(team: &Team, pod: &str) -> Value {
    team.wait_pod(pod, "it has ended", |pod| {
        pod["status"]["phase"] == "Succeeded"
    })
}

/// The predecessor did not charge a pod without a running container, and told its sidecar to end.
#[test]
fn t02_a_pod_pays_for_its_card_while_its_containers_crash_and_nobody_reports_anything() {
    let timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(36_000));
    let mut crashing = task("crashing", "exit 1", 4);
    crashing["spec"]["restartPolicy"] = json!("Always");
    team.apply(&crashing);
    team.wait_pod("crashing", "it waits for its next start", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"].as_i64() > Some(0) && !status["state"]["waiting"].is_null()
    });
    timekeeper.ahead(3_600);
    team.wait_budget("it pays for an hour of half a card", |status| {
        let paid = |field: &str| status[field].as_i64().unwrap_or(0);
        paid("usedSeconds") + paid("heldSeconds") >= 1_800
    });
    timekeeper.ahead(0);
    team.remove("crashing");
    timekeeper.audit();
}

/// All namespaces had the same constant budget, and "usage" held what remained.
#[test]
fn t03_every_budget_has_its_own_amount_and_used_means_used() {
    let _timekeeper = SHARED.timekeeper();
    let (small, large) = (SHARED.team(&daily(100)), SHARED.team(&daily(72_000)));
    let used = held(&finished(&small, "task", "sleep 1", 8));
    let status = small.wait_budget("it has used something", |status| {
        status["usedSeconds"] == used
    });
    assert_eq!(status["remainingSeconds"], 100 - used);
    let other = large.wait_budget("it is counted", |status| status["used"] == "0s");
    assert_eq!(other["remaining"], "20h");
    small.remove("task");
}

/// When the budget was exhausted, every pod of the namespace was deleted, and recreated pods were not metered.
#[test]
fn t04_at_exhaustion_pods_go_on_and_new_ones_are_metered() {
    let timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(1));
    team.runs(&task("runs-on", "sleep 10000", 4));
    team.wait_exhausted();
    team.wait_for_class("gpushare-over-budget");
    let late = finished(&team, "late", "sleep 2", 4);
    assert_eq!(timekeeper.seconds_of(&team.name, "late"), held(&late));
    let spared = team.pod("runs-on").unwrap();
    assert!(spared["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(spared["status"]["phase"], "Running");
    team.remove("late");
    team.remove("runs-on");
}

/// The documentation promised minutes, but reports were counted.
#[test]
fn t05_a_second_of_a_whole_card_costs_a_gpu_second_and_of_half_a_card_half_of_it() {
    let timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(36_000));
    for (name, gib, parts) in [("whole", 8, 1), ("half", 4, 2)] {
        let done = finished(&team, name, "sleep 2", gib);
        let lines = timekeeper.statement(&team.name);
        let line = lines.iter().find(|line| line.name == name).unwrap();
        assert_eq!(line.seconds, held(&done));
        assert_eq!(line.amount.micros(), held(&done) * 1_000_000 / parts);
        team.remove(name);
    }
}

/// Budgets were never refilled.
#[test]
fn t06_a_budget_is_full_again_in_its_next_period_and_what_is_left_may_be_carried_over() {
    let timekeeper = SHARED.timekeeper();
    let mut carrying = daily(10_000);
    carrying["rolloverCap"] = json!(30);
    let team = SHARED.team(&carrying);
    let used = held(&finished(&team, "task", "sleep 1", 8));
    team.wait_budget("it has used something", |status| {
        status["remainingSeconds"] == 10_000 - used
    });
    timekeeper.ahead(DAY);
    team.wait_budget("the next period has begun", |status| {
        status["remainingSeconds"] == 10_030 && status["usedSeconds"] == 0
    });
    timekeeper.ahead(0);
    let what = "the old period is as it was but for what went over";
    team.wait_budget(what, |status| status["usedSeconds"] == used);
    team.remove("task");
    timekeeper.audit();
}

/// The first report could overdraw the budget by any amount without consequence.
#[test]
fn t07_a_budget_that_is_overdrawn_when_it_is_first_looked_at_is_exhausted_at_once() {
    let mut timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(1));
    timekeeper.kill();
    team.apply(&task("task", "sleep 3", 8));
    let done = wait_succeeded(&team, "task");
    assert!(team.budget()["status"]["exhausted"] != true);
    timekeeper.start();
    team.wait_budget("it is exhausted", |status| {
        status["exhausted"] == true && status["remainingSeconds"] == 1 - held(&done)
    });
    team.wait_charged("task");
    team.remove("task");
}

/// Of two concurrent reports, one was lost.
#[test]
fn t09_pods_that_end_together_are_all_charged_and_none_twice_though_the_timekeeper_is_killed() {
    let mut timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(36_000));
    let names: Vec<String> = (0..8).map(|number| format!("task-{number}")).collect();
    for name in &names {
        team.apply(&task(name, "sleep 2", 1));
    }
    for name in &names {
        wait_succeeded(&team, name);
        timekeeper.kill();
        timekeeper.start();
    }
    for name in &names {
        let done = team.wait_charged(name);
        let charged = timekeeper.seconds_of(&team.name, name);
        assert_eq!(charged, held(&done), "{name}");
    }
    assert_eq!(timekeeper.statement(&team.name).len(), names.len());
    timekeeper.audit();
    for name in &names {
        team.remove(name);
    }
}

/// A pod without a certain container, or without statuses, crashed the service.
#[test]
fn t10_pods_of_any_shape_and_without_any_status_are_no_problem() {
    let mut timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(36_000));
    let mut waiting = task("waiting", "sleep 1", 4);
    waiting["spec"]["nodeSelector"] = json!({"no": "such-node"});
    team.apply(&waiting);
    let mut several = task("several", "sleep 1", 2);
    several["spec"]["initContainers"] = json!([
        container("prepare", "sleep 1", aliyun(2)),
        {"name": "beside", "image": e2e::manifest::IMAGE, "imagePullPolicy": "Never",
            "restartPolicy": "Always", "command": ["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait $!"]},
    ]);
    let containers = several["spec"]["containers"].as_array_mut().unwrap();
    containers.push(container("second", "sleep 2", aliyun(2)));
    team.apply(&several);
    let done = team.wait_charged("several");
    assert_eq!(timekeeper.seconds_of(&team.name, "several"), held(&done));
    let pending = team.pod("waiting").unwrap();
    assert!(pending["status"]["containerStatuses"].is_null());
    team.remove("waiting");
    assert_eq!(timekeeper.seconds_of(&team.name, "waiting"), 0);
    team.remove("several");
    timekeeper.assert_alive();
}

/// A restart of the database gave every namespace a full budget.
#[test]
fn t11_a_restart_gives_nobody_anything_back() {
    let mut timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(3_600));
    let used = held(&finished(&team, "task", "sleep 2", 8));
    let counted = |status: &Value| status["remainingSeconds"] == 3_600 - used;
    team.wait_budget("it has used something", counted);
    timekeeper.kill();
    // Charges do not depend on the status in the cluster.
    let forged = json!({"status": {"remainingSeconds": 3_600, "usedSeconds": 0}});
    let budget = format!("gpubudget {} --subresource=status --type=merge", team.name);
    SHARED.world.patch(&budget, &forged).unwrap();
    timekeeper.start();
    team.wait_budget("it has used what it had used", counted);
    team.remove("task");
}

/// Everything was logged as an error, and there was no history.
#[test]
fn t12_there_are_metrics_events_and_a_history_and_success_is_no_error() {
    let timekeeper = SHARED.timekeeper();
    let team = SHARED.team(&daily(1));
    let done = finished(&team, "task", "sleep 2", 8);
    team.wait_exhausted();
    let remaining = format!(
        "gpushare_timekeeper_budget_remaining_gpu_seconds{{budget=\"{}\"}} {}.0",
        team.name,
        1 - held(&done)
    );
    let all = [
        remaining.as_str(),
        "gpushare_timekeeper_is_leader 1",
        "gpushare_timekeeper_settlements_total",
        "gpushare_timekeeper_budget_burn_rate",
    ];
    let metrics = || timekeeper.metrics();
    wait::until_seen("the metrics", metrics, |metrics| {
        all.iter().all(|line| metrics.contains(line))
    });
    // A budget belongs to no namespace, and its events are in this one.
    let about = format!("{} --namespace=default", team.name);
    wait::until("an event on the budget", || {
        let events = SHARED.world.events(&about)?;
        let mut reasons = events.iter().map(|event| &event["reason"]);
        ensure!(reasons.any(|reason| reason == "Exhausted"), "{events:?}");
        Ok(())
    });
    let lines = timekeeper.statement(&team.name);
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].name, "task");
    assert_eq!(lines[0].formula, "max/1");
    let logged = timekeeper.logged();
    assert!(!logged.contains("\"level\":\"ERROR\""), "{logged}");
    team.remove("task");
}
