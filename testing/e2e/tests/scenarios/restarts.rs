//! Kubelet and agent restart; running pods continue and new ones work.

use std::fs;

use e2e::World;
use e2e::manifest::{aliyun, gpushare, pod};
use e2e::wait;
use e2e::world::{NODE, recorded_card};
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

    // The new agent restarts a container that ends on the same card. What exec returns when its container ends does
    // not matter.
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
    // The kubelet writes the checkpoint after Allocate has answered, and starts the container later.
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

#[test]
fn a_node_that_is_deleted_and_registered_again_gets_its_cards_back() {
    let mut world = World::start(&[8192]);
    let token = [
        "--namespace=gpushare-system",
        "create",
        "token",
        "gpushare-node",
        "--bound-object-kind=Node",
        "--bound-object-name=node",
    ];
    let token = world.rig().kubectl(&token).unwrap();
    let token = format!("--token={}", token.trim());
    world.rig().kubectl(&["delete", "node", NODE]).unwrap();
    // API servers cache authentications for a while. Once this token is refused, every request is checked again.
    wait::until("a token of the Node that is gone to be refused", || {
        let asked = world.rig().kubectl(&[&token, "get", "node", NODE]);
        let said = format!("{:#}", asked.expect_err("there is no Node"));
        let refused = said.contains("Unauthorized") || said.contains("logged in");
        refused.then_some(()).ok_or(said)
    });
    world.rig().restart("kubelet").unwrap();
    world.wait_ready();
    world.apply(&pod("after", gpushare(2048)));
    sees_its_card(&world, "after");
    world.agent.as_mut().unwrap().assert_alive();
}

fn sees_its_card(world: &World, name: &str) {
    let pod = world.wait_running(name);
    let seen = &world.env_inside(name)["NVIDIA_VISIBLE_DEVICES"];
    assert_eq!(seen, recorded_card(&pod).as_str(), "{name}");
}

fn started(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}
