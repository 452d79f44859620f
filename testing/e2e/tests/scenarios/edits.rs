//! Whatever a tenant with the role `edit` writes on its running pod, the pod keeps its card.

use std::sync::Arc;

use anyhow::Result;
use e2e::World;
use e2e::manifest::{aliyun, gpushare, pod};
use e2e::wait;
use gpushare_rig::Rig;
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
    let tenant = Tenant::new(&world);
    world.apply(&pod("victim", aliyun(10)));
    world.wait_running("victim");
    for (name, value) in SENSELESS_CHOICES {
        // The scheduler's own totals would allow another pod of 10 GiB; the card does not.
        tenant.annotate("victim", name, value);
        let heir = format!("heir-of-{}", name.trim_start_matches("gpushare.io/"));
        world.apply(&pod(&heir, gpushare(10240)));
        world.wait_event(&heir, FULL);
        assert_eq!(world.booked(), [10], "{name}={value}");
        world.delete(&heir);
        world.wait_gone(&heir);
    }
    tenant.cannot_change_what_it_holds("victim");

    // After a restart both know only what is recorded on the pod and, for the agent, in its files.
    world.extender.as_mut().unwrap().kill();
    world.agent.as_mut().unwrap().kill();
    world.start_agent();
    world.start_extender();
    world.wait_ready();
    assert_eq!(world.booked(), [10]);
    world.apply(&pod("heir", gpushare(10240)));
    world.wait_event("heir", FULL);
    assert_eq!(world.pod("heir").unwrap()["spec"]["nodeName"], Value::Null);

    // Its container may restart on its card.
    let before = container(&world.pod("victim").unwrap());
    let _ended = tenant.kubectl(&["exec", "victim", "--", "kill", "-TERM", "1"]);
    wait::until("the container to start again", || {
        let now = container(&world.wait_running("victim"));
        if now == before {
            Err("still the old one")
        } else {
            Ok(())
        }
    });
    assert_eq!(world.booked(), [10]);

    world.delete("victim");
    world.wait_running("heir");
    assert_eq!(world.booked(), [10]);
}

fn container(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}

/// A user who may edit the objects of the namespace `default`, and nothing more.
struct Tenant(Arc<Rig>);

impl Tenant {
    fn new(world: &World) -> Self {
        let rig = world.rig().clone();
        let grant = [
            "create",
            "rolebinding",
            "tenant",
            "--clusterrole=edit",
            "--user=tenant",
        ];
        rig.kubectl(&grant).unwrap();
        Self(rig)
    }

    fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.0.kubectl(&[&["--as=tenant"], args].concat())
    }

    fn annotate(&self, pod: &str, name: &str, value: &str) {
        let annotation = format!("{name}={value}");
        self.kubectl(&["annotate", "pod", pod, "--overwrite", &annotation])
            .unwrap();
    }

    /// What a bound pod holds depends on its record, its node, its limits and, for its end, its status.
    fn cannot_change_what_it_holds(&self, pod: &str) {
        let limits = json!({"aliyun.com/gpu-mem": "1"});
        let limits = json!({"containers": [{"name": "c", "resources": {"limits": limits}}]});
        let forbidden = [
            (
                json!({"metadata": {"annotations": {"gpushare.io/allocation": "{}"}}}),
                "",
                OURS_ALONE,
            ),
            (
                json!({"metadata": {"annotations": {"gpushare.io/allocation": ""}}}),
                "",
                OURS_ALONE,
            ),
            (
                json!({"metadata": {"annotations": {"gpushare.io/allocation": null}}}),
                "",
                OURS_ALONE,
            ),
            (
                json!({"spec": {"nodeName": "elsewhere"}}),
                "",
                "pod updates may not change fields",
            ),
            (json!({"spec": limits}), "", "is invalid"),
            (
                json!({"spec": limits}),
                "resize",
                "resource \"pods/resize\"",
            ),
            (
                json!({"status": {"phase": "Succeeded"}}),
                "status",
                "resource \"pods/status\"",
            ),
        ];
        for (patch, subresource, why) in forbidden {
            let patch = patch.to_string();
            let subresource = format!("--subresource={subresource}");
            let mut args = vec!["patch", "pod", pod, "--type=strategic", "--patch", &patch];
            if subresource != "--subresource=" {
                args.push(&subresource);
            }
            let said = format!("{:#}", self.kubectl(&args).unwrap_err());
            assert!(said.contains(why), "{args:?}: {said}");
        }
    }
}
