//! ResourceQuotas on our resources and those of the predecessors: Kubernetes counts and enforces them, from what
//! containers request, until the pod has ended.

use e2e::manifest::{and, container, gpushare, pod, running, stateful_set};
use e2e::{Setup, World, wait};
use serde_json::{Value, json};

/// Runs until it is told to end.
const UNTIL_TOLD: &str = "until test -e /told; do sleep 0.1; done";

/// The limits of a pod of each dialect, with all resources of the dialect.
fn dialects() -> [(&'static str, Value); 5] {
    [
        ("ours", and(gpushare(3072), "gpushare.io/gpu-core", 20)),
        (
            "aliyun",
            json!({"aliyun.com/gpu-mem": 3, "aliyun.com/gpu-count": 2}),
        ),
        (
            "tencent",
            json!({"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 12}),
        ),
        (
            "hami",
            json!({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3072, "nvidia.com/gpucores": 20}),
        ),
        (
            "hami-percent",
            json!({"nvidia.com/gpu": 1, "nvidia.com/gpumem-percentage": 30}),
        ),
    ]
}

/// The same amounts under the names by which a quota counts them.
fn requests(limits: &Value) -> Value {
    let limits = limits.as_object().unwrap().iter();
    limits
        .map(|(resource, amount)| (format!("requests.{resource}"), json!(amount.to_string())))
        .collect()
}

fn nothing(of: &Value) -> Value {
    let names = of.as_object().unwrap().keys();
    names.map(|name| (name.clone(), json!("0"))).collect()
}

/// Sets a quota and waits until Kubernetes has counted the existing pods.
fn set_quota(world: &World, name: &str, hard: &Value) {
    world.apply(&json!({
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard},
    }));
    wait::until("the quota to be in force", || {
        let quota = quota(world, name);
        if quota["status"]["hard"] == *hard {
            Ok(())
        } else {
            Err(quota)
        }
    });
}

fn quota(world: &World, name: &str) -> Value {
    world.object(&["get", "resourcequota", name]).unwrap()
}

fn wait_used(world: &World, name: &str, expected: &Value) {
    wait::until(&format!("{expected} of quota {name} to be used"), || {
        let used = quota(world, name)["status"]["used"].take();
        if used == *expected { Ok(()) } else { Err(used) }
    });
}

fn refusal(world: &World, pod: &Value) -> String {
    format!("{:#}", world.rig().apply(&pod.to_string()).unwrap_err())
}

#[test]
fn a_quota_on_any_resource_of_any_dialect_is_enforced_and_freed_when_the_pod_ends() {
    let world = World::with(Setup::cards(&[16384; 2]).hami());
    for (dialect, limits) in dialects() {
        let hard = requests(&limits);
        set_quota(&world, dialect, &hard);
        let mut first = running(&format!("{dialect}-first"), UNTIL_TOLD, limits.clone());
        first["spec"]["restartPolicy"] = json!("Never");
        world.apply(&first);
        world.wait_running(&format!("{dialect}-first"));
        wait_used(&world, dialect, &hard);

        let next = pod(&format!("{dialect}-next"), limits);
        let refusal = refusal(&world, &next);
        assert!(
            refusal.contains(&format!("forbidden: exceeded quota: {dialect}")),
            "{refusal}"
        );
        for (name, amount) in hard.as_object().unwrap() {
            let counted = format!("{name}={}", amount.as_str().unwrap());
            let times = refusal.matches(&counted).count();
            assert_eq!(times, 3, "requested, used, limited: {counted} in {refusal}");
        }

        // The containers have ended, so nothing is held any more, though the pod still exists.
        let first = format!("{dialect}-first");
        let tell = ["exec", &first, "--", "touch", "/told"];
        world.rig().kubectl(&tell).unwrap();
        wait_used(&world, dialect, &nothing(&hard));
        let phase = world.pod(&first).unwrap()["status"]["phase"].take();
        assert_eq!(phase, "Succeeded");
        world.apply(&next);
        let next = format!("{dialect}-next");
        world.wait_running(&next);
        wait_used(&world, dialect, &hard);

        world.delete(&next);
        world.wait_gone(&next);
        wait_used(&world, dialect, &nothing(&hard));
        let end = ["delete", "resourcequota", dialect];
        world.rig().kubectl(&end).unwrap();
    }
}

#[test]
fn a_quota_counts_what_containers_write_and_only_under_the_name_of_requests() {
    let world = World::start(&[16384; 4]);
    let counted = json!({
        "requests.gpushare.io/gpu": "5",
        "requests.gpushare.io/gpu-mem": "9216",
    });
    set_quota(&world, "counted", &counted);
    // Kubernetes accepts these names, but never counts anything under them.
    let vain = json!({"limits.gpushare.io/gpu-mem": "1", "gpushare.io/gpu-mem": "1"});
    set_quota(&world, "vain", &vain);

    // Containers add up, a larger init container counts instead, and memory is not multiplied by cards.
    let several = json!({"gpushare.io/gpu": 4, "gpushare.io/gpu-mem": 3072});
    let mut both = pod("both", several);
    let setup = container("setup", "true", gpushare(6144));
    both["spec"]["initContainers"] = json!([setup]);
    let containers = both["spec"]["containers"].as_array_mut().unwrap();
    containers.push(container("d", UNTIL_TOLD, gpushare(1024)));
    world.apply(&both);
    world.wait_running("both");
    let used = json!({
        "requests.gpushare.io/gpu": "5",
        "requests.gpushare.io/gpu-mem": "6144",
    });
    wait_used(&world, "counted", &used);
    let used = quota(&world, "vain")["status"]["used"].take();
    let in_vain = used.as_object().is_none_or(|used| {
        let mut amounts = used.values();
        amounts.all(|amount| amount == "0")
    });
    assert!(in_vain, "{used}");

    // The refusal is reported on the StatefulSet, where its owner reads it.
    world.apply(&stateful_set("set", 1, gpushare(1024)));
    let event = world.wait_event("set", "exceeded quota: counted");
    assert!(event.contains("requests.gpushare.io/gpu=1"), "{event}");
    assert!(!event.contains("vain"), "{event}");
}
