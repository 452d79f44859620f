//! Budgets that make new pods wait: the pods are admitted when there is budget again.

use anyhow::Result;
use e2e::calendar::day;
use e2e::manifest::{aliyun, pod};
use e2e::{Kubectl, wait};
use serde_json::{Value, json};

use super::OVER;
use crate::{DAY, SHARED};

#[test]
fn the_gate_of_pods_that_wait_for_budget_opens_with_the_next_period() {
    let mut timekeeper = SHARED.timekeeper();
    let spec = json!({"amount": 1, "period": day(), "whenExhausted": "ThrottleNew"});
    let team = SHARED.team(&spec);
    team.runs(&pod("runs", aliyun(8)));
    team.wait_exhausted();
    team.wait_mark("runs", OVER, true);
    team.remove("runs");
    let gated = || -> Value {
        // The webhook may learn of it a moment later.
        wait::until("a pod that waits", || -> Result<Value> {
            let mut waits = pod("waits", aliyun(2));
            waits["spec"]["schedulingGates"] = json!([{"name": "example.com/other"}]);
            team.apply(&waits);
            let stored = team.pod("waits")?;
            let gates = stored["spec"]["schedulingGates"].clone();
            if gates.to_string().contains("gpushare.io/budget") {
                return Ok(gates);
            }
            team.remove("waits");
            anyhow::bail!("{gates}")
        })
    };
    assert_eq!(gated().as_array().unwrap().len(), 2);
    // A restarted timekeeper knows the same.
    timekeeper.kill();
    timekeeper.start();
    timekeeper.ahead(DAY);
    team.wait_event("waits", "this pod is scheduled now");
    let stored = team.pod("waits").unwrap();
    // The timekeeper leaves other gates alone.
    assert_eq!(
        stored["spec"]["schedulingGates"],
        json!([{"name": "example.com/other"}])
    );
    let open = json!({"spec": {"schedulingGates": null}});
    team.patch("pod waits --type=merge", &open).unwrap();
    let stored = team.wait_running("waits");
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-in-budget");
    team.leave();
}
