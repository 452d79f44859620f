//! ResourceQuotas on our resources and those of the predecessors: Kubernetes counts and enforces them, from what
//! containers request, until the pod has ended.

use e2e::kubectl::refusal;
use e2e::manifest::{self, and, container, gpushare, pod, running, stateful_set};
use e2e::{Kubectl, Setup, World, wait};
use gpushare_testkit::assert_contains;
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
    world.apply(&manifest::quota(name, hard));
    let in_force = |quota: &Value| quota["status"]["hard"] == *hard;
    wait::until_seen("the quota to be in force", || quota(world, name), in_force);
}

fn quota(world: &World, name: &str) -> Value {
    world.get(&format!("resourcequota {name}")).unwrap()
}

fn used(world: &World, name: &str) -> Value {
    quota(world, name)["status"]["used"].take()
}

fn wait_used(world: &World, name: &str, expected: &Value) {
    let what = format!("{expected} of quota {name} to be used");
    wait::until_seen(&what, || used(world, name), |used| used == expected);
}

#[test]
fn a_quota_on_any_resource_of_any_dialect_is_enforced_and_freed_when_the_pod_ends() {
    let world = World::with(Setup::cards(&[16384; 2]).hami());
    for (dialect, limits) in dialects() {
        let hard = requests(&limits);
        set_quota(&world, dialect, &hard);
        let (first, next) = (format!("{dialect}-first"), format!("{dialect}-next"));
        let mut task = running(&first, UNTIL_TOLD, limits.clone());
        task["spec"]["restartPolicy"] = json!("Never");
        world.runs(&task);
        wait_used(&world, dialect, &hard);

        let second = pod(&next, limits);
        let refusal = refusal(world.try_apply(&second));
        assert_contains(&refusal, &format!("forbidden: exceeded quota: {dialect}"));
        for (name, amount) in hard.as_object().unwrap() {
            let counted = format!("{name}={}", amount.as_str().unwrap());
            let times = refusal.matches(&counted).count();
            assert_eq!(times, 3, "requested, used, limited: {counted} in {refusal}");
        }

        // The containers have ended, so nothing is held any more, though the pod still exists.
        world.ctl(&format!("exec {first} -- touch /told")).unwrap();
        wait_used(&world, dialect, &nothing(&hard));
        let phase = world.pod(&first).unwrap()["status"]["phase"].take();
        assert_eq!(phase, "Succeeded");
        world.runs(&second);
        wait_used(&world, dialect, &hard);

        world.remove(&next);
        wait_used(&world, dialect, &nothing(&hard));
        world
            .ctl(&format!("delete resourcequota {dialect}"))
            .unwrap();
    }
}

#[test]
fn a_quota_counts_what_containers_write_and_only_under_the_name_of_requests() {
    let world = World::start(&[16384; 4]);
    let counted =
        |mib: &str| json!({"requests.gpushare.io/gpu": "5", "requests.gpushare.io/gpu-mem": mib});
    set_quota(&world, "counted", &counted("9216"));
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
    world.runs(&both);
    wait_used(&world, "counted", &counted("6144"));
    let used = used(&world, "vain");
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
