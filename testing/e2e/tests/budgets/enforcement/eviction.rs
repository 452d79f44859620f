//! Budgets that evict: pods are warned first, are evicted at the announced time, and disruption budgets are respected.

use anyhow::ensure;
use e2e::manifest::{aliyun, disruption_budget, pod};
use e2e::{Kubectl, wait};
use serde_json::json;

use super::{EVICT_AT, team};
use crate::SHARED;

#[test]
fn with_a_grace_a_pod_is_told_when_it_goes_and_goes_then_unless_there_is_budget_again() {
    let mut timekeeper = SHARED.timekeeper();
    let team = team("EvictWithGrace", Some(3600));
    team.runs(&pod("runs", aliyun(4)));
    team.exhaust(true);
    let first = team.wait_mark("runs", EVICT_AT, true).unwrap();
    let said = team.wait_event("runs", "will be evicted at");
    assert!(said.contains(&first), "{said}");
    // There is budget again before the pod is evicted.
    timekeeper.ahead(3000);
    team.exhaust(false);
    team.wait_mark("runs", EVICT_AT, false);
    timekeeper.ahead(3700);
    team.exhaust(true);
    let second = team.wait_mark("runs", EVICT_AT, true).unwrap();
    assert!(second > first, "{second}");
    assert!(team.is_left("runs"));
    // A timekeeper that has just started keeps the announced time too. The mark on another pod shows that it has
    // looked.
    timekeeper.kill();
    timekeeper.ahead(3700 + 3000);
    timekeeper.start();
    team.runs(&pod("later", aliyun(1)));
    team.wait_mark("later", EVICT_AT, true);
    assert_eq!(team.annotation("runs", EVICT_AT).unwrap(), Some(second));
    assert!(team.is_left("runs"));
    timekeeper.ahead(3700 + 3700);
    team.wait_event("runs", "the grace period is over");
    team.wait_told_to_go("runs");
    assert!(team.is_left("later"), "its grace has only begun");
    team.leave();
}

#[test]
fn a_disruption_budget_keeps_a_pod_past_its_grace_until_it_lets_it_go() {
    let _timekeeper = SHARED.timekeeper();
    let team = team("EvictWithGrace", Some(0));
    let mut kept = pod("kept", aliyun(4));
    kept["metadata"]["labels"]["app"] = json!("kept");
    team.runs(&kept);
    team.apply(&disruption_budget("kept"));
    wait::until("the budget to be counted", || {
        let status = team.get("poddisruptionbudget kept")?["status"].take();
        ensure!(status["currentHealthy"] == 1, "{status}");
        Ok(())
    });
    team.exhaust(true);
    team.wait_event("kept", "a disruption budget protects this pod");
    assert!(team.is_left("kept"));
    team.ctl("delete poddisruptionbudget kept").unwrap();
    team.wait_told_to_go("kept");
    team.leave();
}
