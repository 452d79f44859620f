//! Tenants cannot get around the enforcement of budgets, and the timekeeper has no rights beyond it.

use anyhow::{Result, ensure};
use e2e::manifest::{aliyun, annotated, pod};
use e2e::wait;
use e2e::world::NODE;
use serde_json::{Value, json};

use super::{ALONE, EVICT_AT, OVER, RESTORED, Team};
use crate::SHARED;

#[test]
fn a_tenant_can_neither_set_nor_change_nor_remove_what_enforces_budgets() {
    let _timekeeper = SHARED.timekeeper();
    let team = Team::new("EvictWithGrace", Some(3600));
    team.runs(&pod("mine", aliyun(4)));
    let refused = |args: &[&str]| {
        let said = team.refused(args);
        assert!(said.contains(ALONE), "{args:?}: {said}");
    };
    for name in [OVER, RESTORED, EVICT_AT] {
        refused(&[
            "annotate",
            "pod",
            "mine",
            &format!("{name}=2020-01-01T00:00:00Z"),
        ]);
    }
    team.exhaust(true);
    team.wait_mark("mine", EVICT_AT, true);
    for (name, change) in [(OVER, "other"), (EVICT_AT, "2099-01-01T00:00:00Z")] {
        let set = format!("{name}={change}");
        refused(&["annotate", "pod", "mine", "--overwrite", &set]);
        refused(&["annotate", "pod", "mine", &format!("{name}-")]);
    }
    // Through the pod's status, and through the pod as a whole.
    team.grant("pods/status", "patch");
    let unmark = json!({"metadata": {"annotations": {OVER: null}}}).to_string();
    let status = [
        "patch",
        "pod",
        "mine",
        "--subresource=status",
        "--type=merge",
        "-p",
        &unmark,
    ];
    refused(&status);
    let mut whole = team.pod("mine").unwrap();
    whole["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(EVICT_AT);
    let said = team.refused_object("replace", &whole);
    assert!(said.contains(ALONE), "{said}");
    // At creation, also when a controller creates the pod from a template.
    for name in [OVER, RESTORED, EVICT_AT] {
        let born = annotated(pod("born", aliyun(1)), name, "2020-01-01T00:00:00Z");
        let said = team.refused_object("create", &born);
        assert!(said.contains(ALONE), "{said}");
    }
    let mut sly = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "sly"},
        "spec": {"selector": {"matchLabels": {"app": "sly"}}, "template": {
            "metadata": {"labels": {"app": "sly"}, "annotations": {RESTORED: "true"}},
            "spec": pod("", aliyun(1))["spec"],
        }},
    });
    sly["metadata"]["namespace"] = json!(team.name);
    SHARED.world.apply(&sly);
    wait::until("the controller to be refused", || {
        let sets = team.object(&["get", "replicasets"])?;
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
    let team = Team::new("ThrottleNew", None);
    team.runs(&pod("runs", aliyun(1)));
    team.exhaust(true);
    team.wait_mark("runs", OVER, true);
    let waits = wait::until("a pod that waits", || -> Result<Value> {
        team.creates(&pod("waits", aliyun(1)));
        let stored = team.pod("waits")?;
        if stored["spec"]["schedulingGates"].is_array() {
            return Ok(stored);
        }
        SHARED.delete(&team.name, "waits");
        SHARED.wait_gone(&team.name, "waits");
        anyhow::bail!("the webhook has not heard yet")
    });
    let gate = "taken off by the gpushare timekeeper";
    let open = json!({"spec": {"schedulingGates": null}}).to_string();
    let said = team.refused(&["patch", "pod", "waits", "--type=merge", "-p", &open]);
    assert!(said.contains(gate), "{said}");
    let mut whole = waits.clone();
    whole["spec"]
        .as_object_mut()
        .unwrap()
        .remove("schedulingGates");
    let said = team.refused_object("replace", &whole);
    assert!(said.contains(gate), "{said}");
    // Nobody can bind a pod to a node while its gate is closed.
    team.grant("pods/binding", "create");
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "waits", "namespace": team.name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let file = SHARED.world.directory().join("binding.json");
    std::fs::write(&file, binding.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/waits/binding", team.name);
    let post = [
        "create",
        "--raw",
        &path,
        "--filename",
        file.to_str().unwrap(),
    ];
    let said = team.refused(&post);
    assert!(said.contains("schedulingGates"), "{said}");
    // The priority of an existing pod cannot be changed.
    for change in [
        json!({"spec": {"priority": 1000}}),
        json!({"spec": {"priorityClassName": "system-node-critical"}}),
        json!({"spec": {"preemptionPolicy": "Never"}}),
    ] {
        let change = change.to_string();
        let said = team.refused(&["patch", "pod", "runs", "--type=merge", "-p", &change]);
        assert!(said.contains("pod updates may not change fields"), "{said}");
    }
    // An ephemeral container gets no devices, and a restart does not end the metering.
    team.grant("pods/ephemeralcontainers", "patch");
    let look = json!({"spec": {"ephemeralContainers": [{
        "name": "look", "image": "gpushare.test/busybox:1",
        "resources": {"limits": {"aliyun.com/gpu-mem": 1}},
    }]}})
    .to_string();
    let debug = [
        "patch",
        "pod",
        "runs",
        "--subresource=ephemeralcontainers",
        "-p",
        &look,
    ];
    let said = team.refused(&debug);
    assert!(said.contains("resources"), "{said}");
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
    let team = Team::new("Demote", None);
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
        let (patch, list) = (change.to_string(), change.is_array());
        let kind = if list {
            "--type=json"
        } else {
            "--type=strategic"
        };
        let patched = team.kubectl(&["patch", "pod", "runs", kind, "-p", &patch, account]);
        let said = format!("{:#}", patched.unwrap_err());
        assert!(
            said.contains("may change nothing of a pod"),
            "{change}: {said}"
        );
    }
    team.leave();
}
