use std::collections::BTreeMap;

use gpushare_core::gpu::{self, AliyunUnit, Reading};
use serde_json::{Value, json};

use super::*;
use crate::priority::Class;

fn rules() -> Rules {
    Rules {
        dialects: gpu::read(Reading {
            aliyun: AliyunUnit::GiB,
            hami: true,
        }),
        band: i32::MIN..=1_000_000_000,
        sidecar: None,
    }
}

fn classes() -> Classes {
    let class = |name: &str, value, preempts, is_default| {
        let class = Class {
            value,
            preempts,
            is_default,
        };
        (name.to_owned(), class)
    };
    BTreeMap::from([
        class(names::IN_BUDGET, 0, true, false),
        class(names::OVER_BUDGET, -1000, false, false),
        class("standard", 10, true, true),
        class("research", 500, true, false),
        class("scavenger", -5000, false, false),
        class("system-node-critical", 2_000_001_000, true, false),
    ])
}

const OVER: BudgetState = BudgetState::Over(AtTheEnd::Demote);

/// Decides about an object in a namespace whose budget is in this state.
fn decided<T>(
    decide: impl Fn(&Rules, ReviewContext<'_>, &Manifest) -> T,
    budget: BudgetState,
    object: &Value,
) -> T {
    let manifest: Manifest = serde_json::from_value(object.clone()).unwrap();
    let context = ReviewContext {
        namespace: "team-a",
        budget,
        classes: &classes(),
    };
    decide(&rules(), context, &manifest)
}

fn judge(budget: BudgetState, object: &Value) -> Verdict {
    decided(pod, budget, object)
}

/// The pod as it is finally stored. A second review must not patch it again.
fn admitted(budget: BudgetState, object: &Value) -> Value {
    let Verdict::Allowed { patch, .. } = judge(budget, object) else {
        panic!("denied: {:?}", judge(budget, object))
    };
    let mut patched = object.clone();
    let operations: json_patch::Patch = serde_json::from_slice(&patch.json().unwrap()).unwrap();
    json_patch::patch(&mut patched, &operations).unwrap();
    // The API server's Priority plugin runs again after a patch.
    let mut seen_again = patched.clone();
    if let Some(name) = patched["spec"]["priorityClassName"].as_str() {
        let class = classes()[name];
        seen_again["spec"]["priority"] = json!(class.value);
        seen_again["spec"]["preemptionPolicy"] = json!(preemption(class));
    }
    let Verdict::Allowed { patch, .. } = judge(budget, &seen_again) else {
        panic!("denied when called again: {seen_again}")
    };
    assert!(patch.is_empty(), "called again: {patch:?}");
    patched
}

fn denied(budget: BudgetState, object: &Value) -> (Reason, String) {
    match judge(budget, object) {
        Verdict::Denied { reason, message } => (reason, message),
        Verdict::Allowed { .. } => panic!("admitted: {object}"),
    }
}

/// A pod as the API server shows it, after the Priority plugin has run.
fn asking(limits: &Value) -> Value {
    json!({
        "metadata": {"generateName": "train-", "annotations": {"mine": "1"}},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        },
    })
}

fn of_class(class: &str) -> Value {
    let mut pod = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    let known = classes()[class];
    pod["spec"]["priorityClassName"] = json!(class);
    pod["spec"]["priority"] = json!(known.value);
    pod["spec"]["preemptionPolicy"] = json!(preemption(known));
    pod
}

fn preemption(class: Class) -> &'static str {
    if class.preempts {
        "PreemptLowerPriority"
    } else {
        "Never"
    }
}

#[test]
fn a_complete_request_without_a_budget_is_left_exactly_as_it_is() {
    let pod = asking(&json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": "3072"}));
    assert_eq!(admitted(BudgetState::Free, &pod), pod);
    let pod = asking(&json!({"cpu": "1"}));
    for budget in [
        BudgetState::Free,
        BudgetState::Within,
        OVER,
        BudgetState::Unknown,
    ] {
        assert_eq!(admitted(budget, &pod), pod);
    }
}

#[test]
fn memory_alone_gets_the_card_that_it_needs_in_limits_and_requests() {
    let pod = asking(&json!({"gpushare.io/gpu-mem": "3072"}));
    let resources = &admitted(BudgetState::Free, &pod)["spec"]["containers"][0]["resources"];
    let full = json!({"gpushare.io/gpu-mem": "3072", "gpushare.io/gpu": "1"});
    assert_eq!(*resources, json!({"limits": full, "requests": full}));
}

#[test]
fn every_kind_of_container_is_filled_in() {
    let container =
        |name: &str| json!({"name": name, "resources": {"limits": {"gpushare.io/gpu-mem": "1"}}});
    let mut sidecar = container("s");
    sidecar["restartPolicy"] = json!("Always");
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "initContainers": [{"name": "plain"}, container("i"), sidecar],
        "containers": [{"name": "log", "resources": {}}, container("a"), container("b")],
    }});
    let spec = &admitted(BudgetState::Free, &pod)["spec"];
    for list in ["initContainers", "containers"] {
        for index in [1, 2] {
            let resources = &spec[list][index]["resources"];
            let limit = &resources["limits"]["gpushare.io/gpu"];
            assert_eq!(limit, "1", "{list} {index}");
            assert_eq!(resources["requests"]["gpushare.io/gpu"], "1");
        }
    }
    assert_eq!(spec["initContainers"][0], json!({"name": "plain"}));
    assert_eq!(spec["containers"][0]["resources"], json!({}));
}

#[test]
fn what_is_only_requested_becomes_a_limit_too() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": {"gpushare.io/gpu-mem": "5", "cpu": "1"}}}]}});
    let resources = &admitted(BudgetState::Free, &pod)["spec"]["containers"][0]["resources"];
    let limits = json!({"gpushare.io/gpu-mem": "5", "gpushare.io/gpu": "1"});
    assert_eq!(resources["limits"], limits);
    assert_eq!(resources["requests"]["gpushare.io/gpu"], "1");
}

#[test]
fn everything_that_is_wrong_is_said_at_once() {
    let mut pod = asking(&json!({"tencent.com/vcuda-core": "150"}));
    let second = json!({"name": "d", "resources": {"limits": {"aliyun.com/gpu-mem": "0"}}});
    let containers = pod["spec"]["containers"].as_array_mut();
    containers.unwrap().push(second);
    pod["spec"]["initContainers"] =
        json!([{"name": "i", "resources": {"limits": {"gpushare.io/gpu-core": "120"}}}]);
    pod["spec"]["ephemeralContainers"] =
        json!([{"name": "e", "resources": {"limits": {"gpushare.io/gpu": "1"}}}]);
    pod["metadata"]["annotations"]["gpushare.io/policy"] = json!("tight");
    pod["spec"]["priorityClassName"] = json!("system-node-critical");
    pod["spec"]["priority"] = json!(2_000_001_000);
    let (reason, message) = denied(BudgetState::Within, &pod);
    assert_eq!(reason, Reason::Request);
    for part in [
        r#"container "c": tencent.com/vcuda-core: "150""#,
        r#"container "d": aliyun.com/gpu-mem: "0""#,
        r#"container "i": gpushare.io/gpu-core: "120""#,
        r#"container "e": gpushare.io/gpu: "1" is asked for by an ephemeral container"#,
        r#"annotation gpushare.io/policy: "tight""#,
        r#"priorityClassName: "system-node-critical""#,
    ] {
        assert!(message.contains(part), "{part} is missing in: {message}");
    }
}

#[test]
fn in_budget_a_pod_without_a_class_gets_ours_and_is_metered() {
    let pod = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    let stored = admitted(BudgetState::Within, &pod);
    assert_eq!(stored["spec"]["priorityClassName"], names::IN_BUDGET);
    assert_eq!(stored["spec"].get("priority"), None);
    assert_eq!(stored["spec"].get("preemptionPolicy"), None);
    assert_eq!(stored["metadata"]["finalizers"], json!([names::METERING]));
    assert_eq!(stored["metadata"]["annotations"], json!({"mine": "1"}));
}

#[test]
fn over_budget_a_pod_gets_the_lowest_class_is_metered_and_its_owner_is_told() {
    let pod = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    let stored = admitted(OVER, &pod);
    assert_eq!(stored["spec"]["priorityClassName"], names::OVER_BUDGET);
    assert_eq!(stored["metadata"]["finalizers"], json!([names::METERING]));
    assert_eq!(stored["spec"].get("schedulingGates"), None);
    let Verdict::Allowed { warnings, .. } = judge(OVER, &pod) else {
        panic!("denied")
    };
    assert!(warnings[0].contains("team-a is over"), "{warnings:?}");
}

#[test]
fn a_budget_that_lets_new_pods_wait_closes_a_gate() {
    let mut pod = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    pod["spec"]["schedulingGates"] = json!([{"name": "other"}]);
    let stored = admitted(BudgetState::Over(AtTheEnd::Wait), &pod);
    let gates = json!([{"name": "other"}, {"name": names::BUDGET_GATE}]);
    assert_eq!(stored["spec"]["schedulingGates"], gates);
    assert_eq!(stored["spec"]["priorityClassName"], names::IN_BUDGET);
    let own = class(BudgetState::Over(AtTheEnd::Wait), "research");
    assert_eq!(own.as_deref(), Some("research"));
}

#[test]
fn finalizers_of_others_stay() {
    let mut pod = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    pod["metadata"]["finalizers"] = json!(["batch.kubernetes.io/job-tracking"]);
    let stored = admitted(BudgetState::Within, &pod);
    let both = json!(["batch.kubernetes.io/job-tracking", names::METERING]);
    assert_eq!(stored["metadata"]["finalizers"], both);
}

/// The class that the pod finally has; `None` if it is refused.
fn class(budget: BudgetState, named: &str) -> Option<String> {
    let pod = of_class(named);
    if let Verdict::Denied { reason, .. } = judge(budget, &pod)
        && reason == Reason::Priority
    {
        return None;
    }
    let stored = admitted(budget, &pod);
    let class = stored["spec"]["priorityClassName"].as_str();
    Some(class.unwrap().to_owned())
}

#[test]
fn an_allowed_class_stays_and_any_other_is_replaced_or_refused() {
    let check = |budget, named: &str, expected: Option<&str>| {
        let found = class(budget, named);
        assert_eq!(found.as_deref(), expected, "{named} when {budget:?}");
    };
    for free in ["standard", "research", "system-node-critical"] {
        check(BudgetState::Free, free, Some(free));
    }
    check(BudgetState::Free, names::IN_BUDGET, None);
    check(BudgetState::Free, names::OVER_BUDGET, None);
    check(BudgetState::Within, "standard", Some(names::IN_BUDGET));
    check(BudgetState::Within, "research", Some("research"));
    check(BudgetState::Within, "scavenger", Some("scavenger"));
    check(BudgetState::Within, "system-node-critical", None);
    check(OVER, "standard", Some(names::OVER_BUDGET));
    check(OVER, "research", Some(names::OVER_BUDGET));
    check(OVER, names::IN_BUDGET, Some(names::OVER_BUDGET));
    check(OVER, "scavenger", Some("scavenger"));
    check(OVER, "system-node-critical", None);
}

#[test]
fn before_the_budgets_are_known_only_sound_device_pods_are_asked_to_come_again() {
    let sound = asking(&json!({"aliyun.com/gpu-mem": "2"}));
    let (reason, message) = denied(BudgetState::Unknown, &sound);
    assert_eq!(reason, Reason::Unknown);
    assert!(message.contains("try again"), "{message}");
    let broken = asking(&json!({"aliyun.com/gpu-mem": "0"}));
    assert_eq!(denied(BudgetState::Unknown, &broken).0, Reason::Request);
}

#[test]
fn a_message_is_cut_before_it_fills_a_terminal() {
    let mut pod = asking(&json!({"aliyun.com/gpu-mem": "0"}));
    let many = (0..500).map(|_| pod["spec"]["containers"][0].clone());
    pod["spec"]["containers"] = many.collect();
    let (_, message) = denied(BudgetState::Free, &pod);
    assert!(message.len() < LONGEST_MESSAGE + 10, "{}", message.len());
}

fn warnings(budget: BudgetState, object: &Value) -> Vec<String> {
    decided(template, budget, object)
}

#[test]
fn a_template_is_warned_about_one_line_for_each_mistake() {
    let limits = json!({"tencent.com/vcuda-core": "150", "aliyun.com/gpu-mem": "0"});
    let template = json!({"spec": {"priorityClassName": "system-node-critical",
        "containers": [{"name": "c", "resources": {"limits": limits}}]}});
    let warnings = warnings(OVER, &template);
    let count = |part: &str| warnings.iter().filter(|text| text.contains(part)).count();
    assert_eq!(count("will be refused"), warnings.len() - 1, "{warnings:?}");
    assert!(count("vcuda-core") >= 1 && count("system-node-critical") == 1);
    assert_eq!(count("over its GPU budget"), 1);
}

#[test]
fn a_sound_template_and_one_without_devices_get_no_warning() {
    let with = |limits: Value| json!({"spec": {"containers": [{"name": "c", "resources": {"limits": limits}}]}});
    assert!(
        warnings(
            BudgetState::Within,
            &with(json!({"gpushare.io/gpu-mem": "1"}))
        )
        .is_empty()
    );
    assert!(warnings(OVER, &with(json!({"cpu": "1"}))).is_empty());
}
