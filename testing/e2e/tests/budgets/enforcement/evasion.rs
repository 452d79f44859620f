//! Tenants cannot get around the enforcement of budgets, and the timekeeper has no rights beyond it.

use anyhow::{Result, ensure};
use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, annotated, pod};
use e2e::world::NODE;
use e2e::{Kubectl, wait};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use super::{ALONE, EVICT_AT, OVER, RESTORED, team};
use crate::SHARED;

#[test]
fn a_tenant_can_neither_set_nor_change_nor_remove_what_enforces_budgets() {
    let _timekeeper = SHARED.timekeeper();
    let team = team("EvictWithGrace", Some(3600));
    team.runs(&pod("mine", aliyun(4)));
    let refused = |command: &str| assert_contains(&team.refused(command), ALONE);
    for name in [OVER, RESTORED, EVICT_AT] {
        refused(&format!("annotate pod mine {name}=2020-01-01T00:00:00Z"));
    }
    team.exhaust(true);
    team.wait_mark("mine", EVICT_AT, true);
    for (name, change) in [(OVER, "other"), (EVICT_AT, "2099-01-01T00:00:00Z")] {
        refused(&format!("annotate pod mine --overwrite {name}={change}"));
        refused(&format!("annotate pod mine {name}-"));
    }
    // The tenant cannot change the marks through the pod's status or by replacing the pod either.
    team.grant("pods/status", "patch");
    let unmark = json!({"metadata": {"annotations": {OVER: null}}});
    let said = team.refused_patch("pod mine --subresource=status --type=merge", &unmark);
    assert_contains(&said, ALONE);
    let mut whole = team.pod("mine").unwrap();
    let annotations = whole["metadata"]["annotations"].as_object_mut();
    annotations.unwrap().remove(EVICT_AT);
    assert_contains(&team.refused_object("replace", &whole), ALONE);
    // Nor can a pod be created with marks, not even by a controller from a template.
    for name in [OVER, RESTORED, EVICT_AT] {
        let born = annotated(pod("born", aliyun(1)), name, "2020-01-01T00:00:00Z");
        assert_contains(&team.refused_object("create", &born), ALONE);
    }
    let sly = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sly"},
        "spec": {"selector": {"matchLabels": {"app": "sly"}}, "template": {
            "metadata": {"labels": {"app": "sly"}, "annotations": {RESTORED: "true"}},
            "spec": pod("", aliyun(1))["spec"],
        }},
    });
    team.apply(&sly);
    wait::until("the controller to be refused", || {
        let sets = team.get("replicasets")?;
        let conditions = sets["items"][0]["status"]["conditions"].to_string();
        ensure!(conditions.contains(ALONE), "{conditions}");
        Ok(())
    });
    assert!(team.is_left("mine"));
    team.leave();
}

#[test]
fn a_tenant_can_neither_pass_the_gate_nor_buy_rank_nor_hold_cards_beside_the_meter() {
    let _timekeeper = SHARED.timekeeper();
    let team = team("ThrottleNew", None);
    team.runs(&pod("runs", aliyun(1)));
    team.exhaust(true);
    team.wait_mark("runs", OVER, true);
    let waits = wait::until("a pod that waits", || -> Result<Value> {
        team.apply(&pod("waits", aliyun(1)));
        let stored = team.pod("waits")?;
        if stored["spec"]["schedulingGates"].is_array() {
            return Ok(stored);
        }
        team.remove("waits");
        anyhow::bail!("the webhook has not heard yet")
    });
    let gate = "taken off by the gpushare timekeeper";
    let open = json!({"spec": {"schedulingGates": null}});
    let said = team.refused_patch("pod waits --type=merge", &open);
    assert_contains(&said, gate);
    let mut whole = waits.clone();
    let spec = whole["spec"].as_object_mut();
    spec.unwrap().remove("schedulingGates");
    assert_contains(&team.refused_object("replace", &whole), gate);
    // Nobody can bind a pod to a node while its gate is closed.
    team.grant("pods/binding", "create");
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "waits", "namespace": team.name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let path = format!("/api/v1/namespaces/{}/pods/waits/binding", team.name);
    let said = team.refused_object(&format!("create --raw {path}"), &binding);
    assert_contains(&said, "schedulingGates");
    // The priority of an existing pod cannot be changed.
    for change in [
        json!({"spec": {"priority": 1000}}),
        json!({"spec": {"priorityClassName": "system-node-critical"}}),
        json!({"spec": {"preemptionPolicy": "Never"}}),
    ] {
        let said = team.refused_patch("pod runs --type=merge", &change);
        assert_contains(&said, "pod updates may not change fields");
    }
    // An ephemeral container gets no devices, and a restart does not end the metering.
    team.grant("pods/ephemeralcontainers", "patch");
    let look = json!({"spec": {"ephemeralContainers": [{
        "name": "look", "image": "gpushare.test/busybox:1",
        "resources": {"limits": {"aliyun.com/gpu-mem": 1}},
    }]}});
    let said = team.refused_patch("pod runs --subresource=ephemeralcontainers", &look);
    assert_contains(&said, "resources");
    let stored = team.pod("runs").unwrap();
    assert_eq!(
        stored["metadata"]["finalizers"],
        json!(["gpushare.io/metering"])
    );
    team.leave();
}

#[test]
fn the_timekeeper_itself_may_change_nothing_else_of_a_pod() {
    let _timekeeper = SHARED.timekeeper();
    let team = team("Demote", None);
    team.runs(&pod("runs", aliyun(4)));
    let account = "--as=system:serviceaccount:gpushare-system:gpushare-timekeeper";
    for change in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"other": "x"}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "gpushare.test/other:1"}]}}),
        json!({"spec": {"activeDeadlineSeconds": 1}}),
        json!([{"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}]),
    ] {
        let list = change.is_array();
        let kind = if list { "json" } else { "strategic" };
        let said = refusal(team.patch(&format!("pod runs --type={kind} {account}"), &change));
        assert!(
            said.contains("may change nothing of a pod"),
            "{change}: {said}"
        );
    }
    team.leave();
}
