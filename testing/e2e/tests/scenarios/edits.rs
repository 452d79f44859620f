//! Whatever a tenant with the role `edit` writes on its running pod, the pod keeps its card.

use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, gpushare, pod};
use e2e::{Kubectl, World, wait};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

/// Each of these is invalid on a pod that waits for a node.
const SENSELESS_CHOICES: [(&str, &str); 5] = [
    ("gpushare.io/policy", "x"),
    ("gpushare.io/card-models", ","),
    ("gpushare.io/card-ids", ""),
    ("gpushare.io/exclude-card-ids", ","),
    ("gpushare.io/exclude-card-models", "--"),
];
const OURS_ALONE: &str = "are written by the gpushare extender alone";
const FULL: &str = "no card has 10240 MiB of memory free, the most is 6144";

#[test]
fn a_running_pod_keeps_its_card_whatever_its_tenant_writes_on_it() {
    let mut world = World::start(&[16384]);
    world
        .ctl("create rolebinding tenant --clusterrole=edit --user=tenant")
        .unwrap();
    world.runs(&pod("victim", aliyun(10)));
    for (name, value) in SENSELESS_CHOICES {
        // The scheduler's own totals would allow another pod of 10 GiB; the card does not.
        let annotate = "annotate pod victim --overwrite --as=tenant";
        world.ctl(&format!("{annotate} {name}={value}")).unwrap();
        let heir = format!("heir-of-{}", name.trim_start_matches("gpushare.io/"));
        world.apply(&pod(&heir, gpushare(10240)));
        world.wait_event(&heir, FULL);
        assert_eq!(world.booked(), [10], "{name}={value}");
        world.remove(&heir);
    }
    tenant_cannot_change_what_it_holds(&world, "victim");

    // After a restart both know only what is recorded on the pod and, for the agent, in its files.
    world.kill_extender();
    world.kill_agent();
    world.start_agent();
    world.start_extender();
    world.wait_ready();
    assert_eq!(world.booked(), [10]);
    world.apply(&pod("heir", gpushare(10240)));
    world.wait_event("heir", FULL);
    assert_eq!(world.pod("heir").unwrap()["spec"]["nodeName"], Value::Null);

    // Its container may restart on its card.
    let before = container(&world.pod("victim").unwrap());
    let _ended = world.ctl("exec victim --as=tenant -- kill -TERM 1");
    let now = || container(&world.wait_running("victim"));
    wait::until_seen("the container to start again", now, |now| *now != before);
    assert_eq!(world.booked(), [10]);

    world.delete("victim");
    world.wait_running("heir");
    assert_eq!(world.booked(), [10]);
}

fn container(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}

/// What a bound pod holds depends on its record, its node, its limits and, for its end, its status.
fn tenant_cannot_change_what_it_holds(world: &World, pod: &str) {
    let limits = json!({"aliyun.com/gpu-mem": "1"});
    let limits = json!({"containers": [{"name": "c", "resources": {"limits": limits}}]});
    let record =
        |record: Value| json!({"metadata": {"annotations": {"gpushare.io/allocation": record}}});
    let resized = json!({"spec": limits});
    let ended = json!({"status": {"phase": "Succeeded"}});
    let moved = json!({"spec": {"nodeName": "elsewhere"}});
    for (patch, flags, why) in [
        (record(json!("{}")), "", OURS_ALONE),
        (record(json!("")), "", OURS_ALONE),
        (record(Value::Null), "", OURS_ALONE),
        (moved, "", "pod updates may not change fields"),
        (resized.clone(), "", "is invalid"),
        (resized, "--subresource=resize", "resource \"pods/resize\""),
        (ended, "--subresource=status", "resource \"pods/status\""),
    ] {
        let change = format!("pod {pod} --type=strategic --as=tenant {flags}");
        assert_contains(&refusal(world.patch(&change, &patch)), why);
    }
}
