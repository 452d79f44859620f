//! What tenants may try: to get a higher priority than their budget pays for, or to avoid metering.

use e2e::hook::{pod, workload};
use e2e::{Kubectl, manifest, wait};
use serde_json::json;

use crate::{SHARED, assert_metered};

const AS_TENANT: &str = "--as=tenant";

#[test]
fn a_pod_without_devices_cannot_take_one_of_our_classes() {
    let namespace = SHARED.budgeted(false);
    for class in ["gpushare-in-budget", "gpushare-over-budget"] {
        let mut plain = pod("plain", &json!({"cpu": "1"}));
        plain["spec"]["priorityClassName"] = json!(class);
        let said = SHARED.create_with(&namespace, &plain, &[AS_TENANT]);
        said.assert_refused("is given by gpushare");
    }
}

#[test]
fn without_a_budget_nobody_can_take_one_of_our_classes() {
    let namespace = SHARED.namespace();
    let mut forged = pod("forged", &json!({"aliyun.com/gpu-mem": 1}));
    forged["spec"]["priorityClassName"] = json!("gpushare-in-budget");
    let said = SHARED.create_with(&namespace, &forged, &[AS_TENANT]);
    said.assert_refused("this namespace has none");
}

#[test]
fn priority_cannot_be_bought_by_number_or_policy() {
    let namespace = SHARED.budgeted(true);
    let mut forged = pod("forged", &json!({"aliyun.com/gpu-mem": 1}));
    forged["spec"]["priority"] = json!(1000);
    let said = SHARED.create_with(&namespace, &forged, &[AS_TENANT]);
    said.assert_refused("must not be provided");
    let mut forged = pod("forged", &json!({"aliyun.com/gpu-mem": 1}));
    forged["spec"]["preemptionPolicy"] = json!("PreemptLowerPriority");
    let stored = SHARED
        .create_with(&namespace, &forged, &[AS_TENANT])
        .object();
    assert_eq!(stored["spec"]["preemptionPolicy"], "Never");
    assert_eq!(stored["spec"]["priority"], -1000);
}

#[test]
fn a_tenant_cannot_take_the_metering_off_a_pod_by_any_way() {
    let namespace = SHARED.budgeted(false);
    let metered = pod("p", &json!({"aliyun.com/gpu-mem": 1}));
    SHARED
        .create_with(&namespace, &metered, &[AS_TENANT])
        .object();
    let within = format!("--namespace={namespace}");
    let off = r#"{"metadata":{"finalizers":null}}"#;
    let patch = format!("patch pod p {within} --type=merge -p {off}");
    let said = SHARED.say(&format!("{patch} {AS_TENANT}"));
    said.assert_refused("taken off by the gpushare timekeeper");
    let replaced = {
        let mut stored = SHARED.pod(&namespace, "p");
        stored["metadata"]["finalizers"] = json!(["example.com/other"]);
        // No resource version: a status that is written meanwhile must not be the reason for the refusal.
        stored["metadata"]["resourceVersion"] = json!(null);
        SHARED.kubectl(&["replace", "--filename=-", AS_TENANT], Some(&stored))
    };
    replaced.assert_refused("timekeeper");
    let force = "--force --grace-period=0 --wait=false";
    let said = SHARED.say(&format!("delete pod p {within} {force} {AS_TENANT}"));
    assert!(said.ok, "{}", said.err);
    let left = SHARED.pod(&namespace, "p");
    assert_metered(&left);
    // A user who may settle budgets may remove it; the administrator may do everything.
    let said = SHARED.say(&patch);
    assert!(said.ok, "{}", said.err);
}

#[test]
fn pods_of_controllers_are_ranked_and_metered_like_any_other() {
    let namespace = SHARED.budgeted(false);
    let template = json!({"spec": pod("", &json!({"gpushare.io/gpu-mem": 100}))["spec"]});
    let deployment = workload("apps/v1", "Deployment", &template);
    SHARED
        .create_with(&namespace, &deployment, &[AS_TENANT])
        .object();
    let found = wait::until("the Deployment's pod", || {
        let pods = SHARED.rig.get(&format!("pods --namespace={namespace}"));
        pods.unwrap()["items"].get(0).cloned().ok_or("none yet")
    });
    assert_eq!(
        found["metadata"]["generateName"],
        "w-".to_owned() + hash_of(&found) + "-"
    );
    assert_eq!(found["spec"]["priorityClassName"], "gpushare-in-budget");
    assert_metered(&found);
    let limits = &found["spec"]["containers"][0]["resources"]["limits"];
    assert_eq!(limits["gpushare.io/gpu"], "1");
}

fn hash_of(pod: &serde_json::Value) -> &str {
    pod["metadata"]["labels"]["pod-template-hash"]
        .as_str()
        .unwrap()
}

#[test]
fn a_namespace_and_its_first_pod_may_come_in_one_breath() {
    let team = SHARED.namespace();
    let spec = json!({"amount": "20h", "namespaces": {"team": team}});
    let budget = manifest::budget(&team, &spec);
    SHARED.rig.apply(&budget.to_string()).unwrap();
    let name = format!("{team}-fresh");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"gpushare.io/team": team}}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "own", "namespace": name}});
    let mut first = pod("first", &json!({"aliyun.com/gpu-mem": 1}));
    first["metadata"]["namespace"] = json!(name);
    first["spec"]["serviceAccountName"] = json!("own");
    let list = manifest::list(&[namespace, account, first]);
    let said = SHARED.kubectl(&["apply", "--filename=-"], Some(&list));
    assert!(said.ok, "{}", said.err);
    let stored = SHARED.pod(&name, "first");
    assert_metered(&stored);
}
