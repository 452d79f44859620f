//! A restarted kubelet admits its pods again. While the node agent is down, the kubelet rejects a pod whose container
//! it would have to start, and then writes a status that says little about what ran before.

use e2e::budget_cluster::{BudgetCluster, bound, last_finish, seconds};
use e2e::calendar::day;
use e2e::manifest::{aliyun, running};
use e2e::{Kubectl, Team, wait};
use gpushare_ledger::Seconds;
use serde_json::{Value, json};

#[test]
fn a_pod_that_a_restarted_kubelet_rejects_is_charged_for_what_it_held() {
    let mut cluster = BudgetCluster::of_one_test(&[8192]);
    let mut agent = cluster.world.agent.take().unwrap();
    let mut timekeeper = cluster.timekeeper();
    let team = cluster.team(&json!({"amount": 36_000, "period": day()}));
    team.apply(&running("crashing", "sleep 4; exit 1", aliyun(4)));
    let crashed = team.wait_pod("crashing", "it waits for its next start", |pod| {
        let status = &pod["status"]["containerStatuses"][0];
        status["restartCount"].as_i64() > Some(0) && status["state"]["running"].is_null()
    });

    // The timekeeper is down too, so its charge depends on the object alone.
    timekeeper.kill();
    let rig = cluster.world.rig();
    rig.stop_component("kubelet").unwrap();
    agent.kill();
    rig.start_component("kubelet").unwrap();
    let rejected = team.wait_pod("crashing", "it is rejected", |pod| {
        pod["status"]["phase"] == "Failed"
    });
    assert_eq!(rejected["status"]["reason"], "UnexpectedAdmissionError");

    timekeeper.start();
    team.wait_charged("crashing");
    wait::until("the time that it held its card to be charged", || {
        let charged = timekeeper.seconds_of(&team.name, "crashing");
        let until = held_until(&team);
        let started = seconds(&crashed["status"]["startTime"]);
        let held = until - started..=until - bound(&crashed).unwrap();
        let right = charged > 4 && held.contains(&charged);
        right.then_some(()).ok_or((charged, held))
    });
    timekeeper.audit();
}

/// Until when the pod held its card. The kubelet may write the whole status again after it has rejected the pod. If it
/// does not, the time of the rejection counts.
fn held_until(team: &Team) -> Seconds {
    let pod = team.get("pod crashing --show-managed-fields").unwrap();
    last_finish(&pod).unwrap_or_else(|| status_written(&pod))
}

/// When the status was last written, by the API server's clock.
fn status_written(pod: &Value) -> Seconds {
    let writes = pod["metadata"]["managedFields"].as_array().unwrap().iter();
    let of_status = writes.filter(|write| write["subresource"] == "status");
    of_status
        .map(|write| seconds(&write["time"]))
        .max()
        .unwrap()
}
