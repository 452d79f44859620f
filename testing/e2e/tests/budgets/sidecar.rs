//! The budget sidecar with everything real: webhook, scheduler, extender, agent, kubelet and timekeeper.

use anyhow::Context;
use e2e::budget_cluster::held;
use e2e::calendar::day;
use e2e::manifest::{aliyun, annotated, running};
use e2e::world::recorded_card;
use e2e::{Kubectl, Team, wait};
use serde_json::{Value, json};

use crate::SHARED;

const FILE: &str = "/var/run/gpushare/budget/budget.json";

/// A pod that ends as soon as it reads `part` in the file, and prints what it read.
fn reading(name: &str, part: &str) -> Value {
    // Silent while there is no file, so that the log holds only the file's content.
    let script = format!("until grep -qs '{part}' {FILE}; do sleep 0.1; done; cat {FILE}");
    let mut pod = running(name, &script, aliyun(2));
    pod["spec"]["restartPolicy"] = json!("Never");
    annotated(pod, "gpushare.io/budget-sidecar", "true")
}

/// What the pod printed.
fn read(team: &Team, name: &str) -> Value {
    wait::until("what the application read", || {
        let said = team.ctl(&format!("logs {name} --container=c"))?;
        serde_json::from_str(&said).with_context(|| said)
    })
}

#[test]
fn an_application_reads_what_remains_learns_that_nothing_does_and_is_charged_as_any_other() {
    SHARED.add_sidecar_image();
    let timekeeper = SHARED.timekeeper_for_pods();
    let rich = SHARED.team(&json!({"amount": "20h", "period": day()}));
    let poor = SHARED.team(&json!({"amount": 1, "period": day()}));

    rich.apply(&reading("first", r#""stale":false"#));
    poor.apply(&reading("last", r#""overBudget":true"#));
    for (team, name) in [(&rich, "first"), (&poor, "last")] {
        // The pod ends with its application: the sidecar ends by itself.
        let ended = team.wait_charged(name);
        assert_eq!(ended["status"]["phase"], "Succeeded");
        recorded_card(&ended);
        assert_eq!(timekeeper.seconds_of(&team.name, name), held(&ended));
    }
    let remaining = read(&rich, "first")["remaining"].as_i64().unwrap();
    assert!((1..=72_000).contains(&remaining), "{remaining}");
    let last = read(&poor, "last");
    assert_eq!(last["exhausted"], true);
    assert!(last["remaining"].as_i64().unwrap() <= 0, "{last}");
    timekeeper.audit();
}
