//! Each hole of the predecessor's webhook, closed. The tests are named by the hole's number in our analysis.

use e2e::hook::{container, pod, workload};
use e2e::{Kubectl, manifest, wait};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

use crate::{SHARED, assert_metered, limits};

const MEMORY_ONLY: &str = "gpushare.io/gpu-mem";

fn annotations(pod: &Value) -> &Value {
    &pod["metadata"]["annotations"]
}

/// Leftovers of an example refused pods that had environment variables.
#[test]
fn w01_nothing_but_requests_for_devices_is_judged() {
    let namespace = SHARED.namespace();
    let mut asking = pod("p", &json!({"aliyun.com/gpu-mem": 2}));
    asking["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]);
    SHARED.create(&namespace, &asking).object();
    let answer = SHARED.get(0, "/validate").unwrap();
    assert_eq!(answer.status, 404);
    assert_eq!(SHARED.get(0, "/healthz").unwrap().status, 200);
}

/// The predecessor examined templates, but discarded the result.
#[test]
fn w02_every_template_is_warned_about_when_it_is_written_and_its_pods_are_refused() {
    let namespace = SHARED.namespace();
    let wrong =
        json!({"spec": {"containers": [container("c", &json!({"tencent.com/vcuda-core": 150}))]}});
    for (api_version, kind) in [
        ("apps/v1", "Deployment"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ReplicaSet"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
    ] {
        let said = SHARED.create(&namespace, &workload(api_version, kind, &wrong));
        assert!(said.ok, "{kind}: {}", said.err);
        for part in [
            "Warning: gpushare: its pods will be refused",
            "tencent.com/vcuda-core",
        ] {
            assert_contains(&said.err, part);
        }
    }
    let sound = json!({"spec": {"containers": [container("c", &json!({MEMORY_ONLY: 100}))]}});
    let sound = workload("apps/v1", "Deployment", &sound);
    let said = SHARED.dry_run(&SHARED.namespace(), &sound);
    assert_eq!(said.err, "");
    wait::until("the ReplicaSet to be told", || {
        let events = SHARED.rig.get(&format!("events --namespace={namespace}"));
        let events = events.unwrap();
        let mut texts = events["items"].as_array().unwrap().iter();
        let refused = |event: &&Value| {
            let text = event["message"].as_str().unwrap_or_default();
            event["reason"] == "FailedCreate" && text.contains("tencent.com/vcuda-core")
        };
        texts.find(refused).map(|_| ()).ok_or("no event yet")
    });
}

/// Only the first container that asked for a card was checked.
#[test]
fn w03_every_container_that_asks_is_seen() {
    let namespace = SHARED.namespace();
    let mut two = pod("two", &json!({MEMORY_ONLY: 100}));
    two["spec"]["containers"] = json!([
        container("a", &json!({MEMORY_ONLY: 100})),
        container("b", &json!({MEMORY_ONLY: 200})),
    ]);
    let stored = SHARED.create(&namespace, &two).object();
    for number in 0..2 {
        let limits = &stored["spec"]["containers"][number]["resources"]["limits"];
        assert_eq!(limits["gpushare.io/gpu"], "1");
    }
    two["spec"]["containers"][1] = container("b", &json!({"tencent.com/vcuda-core": 150}));
    let said = SHARED.dry_run(&namespace, &two);
    said.assert_refused(r#"container "b""#);
}

/// If the first container had no limits, the others were not checked.
#[test]
fn w04_a_container_that_asks_for_nothing_hides_nobody() {
    let namespace = SHARED.namespace();
    let mut hidden = pod("hidden", &json!({}));
    hidden["spec"]["containers"] = json!([
        {"name": "log", "image": "gpushare.test/none:1"},
        container("train", &json!({"tencent.com/vcuda-core": 150})),
    ]);
    let said = SHARED.dry_run(&namespace, &hidden);
    said.assert_refused(r#"container "train""#);
    hidden["spec"]["containers"][1] = container("train", &json!({MEMORY_ONLY: 100}));
    let stored = SHARED.dry_run(&namespace, &hidden).object();
    let limits = &stored["spec"]["containers"][1]["resources"]["limits"];
    assert_eq!(limits["gpushare.io/gpu"], "1");
}

/// A refusal reported only one mistake, and did not name the container.
#[test]
fn w05_a_refusal_names_every_mistake_with_its_place_and_its_cure() {
    let namespace = SHARED.namespace();
    let mut wrong = pod("wrong", &json!({"tencent.com/vcuda-core": 50}));
    wrong["spec"]["initContainers"] =
        json!([container("fetch", &json!({"aliyun.com/gpu-mem": 0}))]);
    wrong["metadata"]["annotations"] = json!({"gpushare.io/policy": "tight"});
    let said = SHARED.dry_run(&namespace, &wrong);
    for part in [
        r#"container "c": tencent.com/vcuda-memory"#,
        r#"container "fetch": aliyun.com/gpu-mem: "0""#,
        r#"annotation gpushare.io/policy: "tight""#,
        "binpack",
    ] {
        said.assert_refused(part);
    }
}

/// The documented range was never checked.
#[test]
fn w06_amounts_out_of_range_are_refused() {
    let namespace = SHARED.namespace();
    let judge = |core: i64, memory: Option<i64>| {
        let mut limits = json!({"tencent.com/vcuda-core": core});
        if let Some(memory) = memory {
            limits["tencent.com/vcuda-memory"] = json!(memory);
        }
        SHARED.dry_run(&namespace, &pod("p", &limits))
    };
    for core in [0, 101, 150, 250] {
        let said = judge(core, Some(10));
        said.assert_refused("tencent.com/vcuda-core");
    }
    for core in [1, 99] {
        judge(core, Some(10)).object();
    }
    for core in [100, 200] {
        judge(core, None).object();
    }
}

/// Whole cards were refused because they had no memory limit, which they do not need.
#[test]
fn w07_a_whole_card_needs_no_memory() {
    let namespace = SHARED.namespace();
    let whole = pod("whole", &json!({"tencent.com/vcuda-core": 100}));
    let stored = SHARED.create(&namespace, &whole).object();
    assert_eq!(limits(&stored), json!({"tencent.com/vcuda-core": "100"}));
}

/// An annotation of the webhook replaced all annotations of the pod.
#[test]
fn w08_annotations_stay() {
    let namespace = SHARED.budgeted(false);
    let mut annotated = pod("annotated", &json!({MEMORY_ONLY: 100}));
    let own = json!({"team": "vision", "example.com/a.b": "/c~d", "gpushare.io/policy": "spread"});
    annotated["metadata"]["annotations"] = own.clone();
    let stored = SHARED.create(&namespace, &annotated).object();
    assert_eq!(*annotations(&stored), own);
    let stored = SHARED.create(&namespace, &pod("plain", &json!({MEMORY_ONLY: 100})));
    assert_eq!(*annotations(&stored.object()), Value::Null);
}

/// The user's class was always overwritten, even a system class, and a pod without a priority crashed the webhook.
#[test]
fn w09_a_class_that_a_pod_may_have_stays_and_numbers_are_the_api_servers() {
    let research = manifest::priority_class("research", 500);
    SHARED.rig.apply(&research.to_string()).unwrap();
    let (free, within, over) = (
        SHARED.namespace(),
        SHARED.budgeted(false),
        SHARED.budgeted(true),
    );
    let judge = |namespace: &str, class: Option<&str>| {
        let mut own = pod("p", &json!({"aliyun.com/gpu-mem": 1}));
        if let Some(class) = class {
            own["spec"]["priorityClassName"] = json!(class);
        }
        SHARED.dry_run(namespace, &own)
    };
    let admitted = |namespace: &str, class: Option<&str>| {
        let spec = judge(namespace, class).object()["spec"].clone();
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let priority = spec["priority"].as_i64().unwrap();
        (
            text("priorityClassName"),
            priority,
            text("preemptionPolicy"),
        )
    };
    let is = |class: &str, value, policy: &str| (class.to_owned(), value, policy.to_owned());
    let preempts = "PreemptLowerPriority";
    let system = "system-node-critical";
    for (namespace, class, expected) in [
        (&free, None, is("", 0, preempts)),
        (&free, Some(system), is(system, 2_000_001_000, preempts)),
        (&within, None, is("gpushare-in-budget", 0, preempts)),
        (&within, Some("research"), is("research", 500, preempts)),
    ] {
        assert_eq!(admitted(namespace, class), expected);
    }
    let lowest = is("gpushare-over-budget", -1000, "Never");
    for class in [None, Some("research"), Some("gpushare-in-budget")] {
        assert_eq!(admitted(&over, class), lowest);
    }
    for namespace in [within, over] {
        let said = judge(&namespace, Some(system));
        said.assert_refused("name a class with a priority from");
    }
}

/// A container with a certain name switched metering off.
#[test]
fn w10_names_of_containers_mean_nothing() {
    let namespace = SHARED.budgeted(false);
    let mut named = pod("named", &json!({"aliyun.com/gpu-mem": 1}));
    named["spec"]["containers"][0]["name"] = json!("gpu-sidecar");
    let stored = SHARED.create(&namespace, &named).object();
    assert_metered(&stored);
    assert_eq!(stored["spec"]["containers"].as_array().unwrap().len(), 1);
}

/// Pods of a namespace with an exhausted budget ran for free.
#[test]
fn w11_pods_over_budget_are_metered_too_and_their_owners_are_told() {
    let namespace = SHARED.budgeted(true);
    let said = SHARED.create(&namespace, &pod("p", &json!({"aliyun.com/gpu-mem": 1})));
    let stored = said.object();
    assert_metered(&stored);
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-over-budget");
    assert_contains(&said.err, "Warning: gpushare: namespace");
}

/// The webhook computed the pod's price from constants and wrote it to the pod.
#[test]
fn w12_nothing_of_a_pod_says_what_it_costs() {
    let namespace = SHARED.budgeted(false);
    let asked = json!({"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 15});
    let mut forged = pod("forged", &asked);
    let own = json!([{"name": "CONSUMPTION_FACTOR", "value": "0"}]);
    forged["spec"]["containers"][0]["env"] = own.clone();
    let stored = SHARED.create(&namespace, &forged).object();
    assert_eq!(stored["spec"]["containers"][0]["env"], own);
    assert_eq!(*annotations(&stored), Value::Null);
    let kept = json!({"tencent.com/vcuda-core": "50", "tencent.com/vcuda-memory": "15"});
    assert_eq!(limits(&stored), kept);
}

/// A suffix crashed the webhook.
#[test]
fn w13_suffixes_are_read_and_refused_only_where_they_make_no_sense() {
    let namespace = SHARED.namespace();
    let stored = SHARED.create(&namespace, &pod("k", &json!({MEMORY_ONLY: "3k"})));
    let limits = limits(&stored.object());
    assert_eq!(limits, json!({MEMORY_ONLY: "3k", "gpushare.io/gpu": "1"}));
    let said = SHARED.dry_run(&namespace, &pod("g", &json!({"aliyun.com/gpu-mem": "10G"})));
    said.assert_refused(r#"aliyun.com/gpu-mem: "10G""#);
    assert!(!said.err.contains("failed calling webhook"), "{}", said.err);
}

/// An unrequested annotation loosened the limit.
#[test]
fn w14_no_annotation_loosens_a_limit() {
    let namespace = SHARED.namespace();
    let limits = json!({"tencent.com/vcuda-core": 50, "tencent.com/vcuda-memory": 15});
    let stored = SHARED.create(&namespace, &pod("p", &limits)).object();
    assert_eq!(*annotations(&stored), Value::Null);
}

/// After a change of the budget, every update of a running pod was refused.
#[test]
fn w15_a_pod_that_exists_can_be_changed_whatever_has_become_of_its_budget() {
    let namespace = SHARED.budgeted(false);
    let metered = pod("p", &json!({"aliyun.com/gpu-mem": 1}));
    SHARED.create(&namespace, &metered).object();
    SHARED.exhaust(&namespace, true);
    let finalizers = r#"{"metadata":{"finalizers":["gpushare.io/metering","example.com/mine"]}}"#;
    for change in [
        "label pod p stage=late",
        "annotate pod p note=late",
        &format!("patch pod p --type=merge -p {finalizers}"),
    ] {
        let said = SHARED.say(&format!("{change} --namespace={namespace}"));
        assert!(said.ok, "{change}: {}", said.err);
    }
    let stored = SHARED.pod(&namespace, "p");
    assert_eq!(stored["spec"]["priorityClassName"], "gpushare-in-budget");
    assert_eq!(stored["metadata"]["labels"]["stage"], "late");
}

/// Init containers, ephemeral containers, dry runs and requests without limits were not handled.
#[test]
fn w16_every_kind_of_container_and_of_request_is_handled() {
    let namespace = SHARED.namespace();
    let mut mixed = pod("mixed", &json!({}));
    let mut sidecar = container("side", &json!({MEMORY_ONLY: 10}));
    sidecar["restartPolicy"] = json!("Always");
    mixed["spec"]["initContainers"] =
        json!([container("fetch", &json!({MEMORY_ONLY: 20})), sidecar]);
    mixed["spec"]["containers"][0]["resources"] = json!({"requests": {MEMORY_ONLY: 30}});
    let stored = SHARED.dry_run(&namespace, &mixed).object();
    let full = |mib: &str| {
        let both = json!({MEMORY_ONLY: mib, "gpushare.io/gpu": "1"});
        json!({"limits": both, "requests": both})
    };
    let spec = &stored["spec"];
    assert_eq!(spec["initContainers"][0]["resources"], full("20"));
    assert_eq!(spec["initContainers"][1]["resources"], full("10"));
    assert_eq!(spec["containers"][0]["resources"], full("30"));
    // Nothing was created, because it was a dry run.
    let pods = SHARED.rig.get(&format!("pods --namespace={namespace}"));
    assert_eq!(pods.unwrap()["items"], json!([]));

    let mut whole_pod = pod("whole-pod", &json!({}));
    whole_pod["spec"]["resources"] = json!({"limits": {MEMORY_ONLY: 30}});
    let said = SHARED.dry_run(&namespace, &whole_pod);
    said.assert_refused("spec.resources");

    let watched = pod("watched", &json!({"aliyun.com/gpu-mem": 1}));
    SHARED.create(&namespace, &watched).object();
    let debugger = json!({"spec": {"ephemeralContainers": [
        {"name": "debug", "image": "gpushare.test/none:1",
         "resources": {"limits": {"aliyun.com/gpu-mem": "1"}}}]}});
    let debug = "patch pod watched --subresource=ephemeralcontainers --type=strategic";
    let said = SHARED.say(&format!("{debug} --namespace={namespace} -p {debugger}"));
    said.assert_refused("ephemeralContainers[0].resources");
}

/// A sidecar without resources changed the pod's quality of service, and quotas refused it.
#[test]
fn w17_quality_of_service_stays_and_quotas_are_kept() {
    let namespace = SHARED.budgeted(false);
    let quota = manifest::quota(
        "all",
        &json!({
            "requests.cpu": "2", "limits.cpu": "2", "requests.memory": "1Gi", "limits.memory": "1Gi",
            "requests.gpushare.io/gpu": "1",
        }),
    );
    SHARED.create(&namespace, &quota).object();
    let limits = json!({"cpu": "1", "memory": "64Mi", MEMORY_ONLY: "100"});
    let guaranteed = |name: &str| SHARED.create(&namespace, &pod(name, &limits));
    let stored = wait::until("the quota to be counted", || guaranteed("first").result());
    assert_eq!(stored["status"]["qosClass"], "Guaranteed");
    // The quota counts the card that the webhook filled in.
    guaranteed("second").assert_refused("exceeded quota");
}
