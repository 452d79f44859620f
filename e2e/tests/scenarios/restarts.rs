//! Kubelet and agent come and go; pods run on and new ones work.

use std::fs;

use e2e::World;
use e2e::manifest::{aliyun, gpushare, pod};
use e2e::wait;
use e2e::world::recorded_card;
use serde_json::Value;

#[test]
fn a_kubelet_restart_leaves_running_pods_alone_and_new_ones_work() {
    let mut world = World::start(&[8192, 8192]);
    world.apply(&pod("before", aliyun(3)));
    let before = started(&world.wait_running("before"));
    world.rig().restart("kubelet").unwrap();
    world.wait_ready();
    world.apply(&pod("after", gpushare(2048)));
    sees_its_card(&world, "after");
    assert_eq!(
        started(&world.wait_running("before")),
        before,
        "the container was not restarted"
    );
    assert_eq!(world.booked().iter().sum::<u64>(), 5);
    world.agent.as_mut().unwrap().assert_alive();
}

#[test]
fn an_agent_restart_leaves_running_pods_alone_and_new_ones_work() {
    let mut world = World::start(&[8192]);
    world.apply(&pod("before", aliyun(3)));
    let before = started(&world.wait_running("before"));
    world.agent.as_mut().unwrap().kill();
    world.start_agent();
    world.wait_ready();
    world.apply(&pod("after", aliyun(3)));
    sees_its_card(&world, "after");
    assert_eq!(
        started(&world.wait_running("before")),
        before,
        "the container was not restarted"
    );

    // A container that ends is started again on the same card by the new agent. What exec returns when
    // its container ends under it does not matter.
    let _ = world
        .rig()
        .kubectl(&["exec", "before", "--", "kill", "-TERM", "1"]);
    wait::until("the container to start again", || {
        let pod = world.wait_running("before");
        if started(&pod) == before {
            Err("still the old one")
        } else {
            Ok(())
        }
    });
    sees_its_card(&world, "before");
}

#[test]
fn a_pod_caught_between_allocate_and_prestart_by_an_agent_crash_still_gets_its_card() {
    let mut world = World::start(&[8192, 8192]);
    let checkpoint = world
        .rig()
        .path("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
    world.apply(&pod("caught", aliyun(3)));
    // The kubelet writes the checkpoint when Allocate has answered; the container is started later.
    wait::until("Allocate to be recorded", || {
        let text = fs::read_to_string(&checkpoint).map_err(|error| error.to_string())?;
        let entries: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match entries["Data"]["PodDeviceEntries"].as_array() {
            Some(entries) if !entries.is_empty() => Ok(()),
            _ => Err(text),
        }
    });
    world.agent.as_mut().unwrap().kill();
    let caught = world.pod("caught").unwrap();
    assert_ne!(
        caught["status"]["phase"], "Running",
        "the agent was killed too late: {caught}"
    );
    world.start_agent();
    sees_its_card(&world, "caught");
}

fn sees_its_card(world: &World, name: &str) {
    let pod = world.wait_running(name);
    let seen = &world.env_inside(name)["NVIDIA_VISIBLE_DEVICES"];
    assert_eq!(seen, recorded_card(&pod).as_str(), "{name}");
}

fn started(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}
