//! Kubelet and agent restart; running pods continue and new ones work.

use std::fs;

use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, gpushare, pod};
use e2e::world::NODE;
use e2e::{Kubectl, World, wait};
use serde_json::Value;

/// A pod that runs before something restarts runs on in the same container, and a pod that comes afterwards sees its
/// card. Returns the container.
fn runs_on(world: &mut World, after: Value, restart: impl FnOnce(&mut World)) -> Value {
    let before = started(&world.runs(&pod("before", aliyun(3))));
    restart(world);
    world.apply(&pod("after", after));
    world.card_of("after");
    let now = started(&world.wait_running("before"));
    assert_eq!(now, before, "the container was not restarted");
    before
}

#[test]
fn a_kubelet_restart_leaves_running_pods_alone_and_new_ones_work() {
    let mut world = World::start(&[8192, 8192]);
    runs_on(&mut world, gpushare(2048), |world| {
        world.rig().restart("kubelet").unwrap();
        world.wait_ready();
    });
    assert_eq!(world.booked().iter().sum::<u64>(), 5);
    world.agent.as_mut().unwrap().assert_alive();
}

#[test]
fn an_agent_restart_leaves_running_pods_alone_and_new_ones_work() {
    let mut world = World::start(&[8192]);
    let before = runs_on(&mut world, aliyun(3), World::restart_agent);

    // The new agent restarts a container that ends on the same card. What exec returns when its container ends does
    // not matter.
    let _ = world.ctl("exec before -- kill -TERM 1");
    let now = || started(&world.wait_running("before"));
    wait::until_seen("the container to start again", now, |now| *now != before);
    world.card_of("before");
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
    world.kill_agent();
    let caught = world.pod("caught").unwrap();
    assert_ne!(
        caught["status"]["phase"], "Running",
        "the agent was killed too late: {caught}"
    );
    world.start_agent();
    world.card_of("caught");
}

#[test]
fn a_node_that_is_deleted_and_registered_again_gets_its_cards_back() {
    let mut world = World::start(&[8192]);
    let bound = "--bound-object-kind=Node --bound-object-name=node";
    let token = world.ctl(&format!(
        "create token gpushare-node --namespace=gpushare-system {bound}"
    ));
    let token = token.unwrap();
    let token = token.trim();
    world.ctl(&format!("delete node {NODE}")).unwrap();
    // API servers cache authentications for a while. Once this token is refused, every request is checked again.
    wait::until("a token of the Node that is gone to be refused", || {
        let said = refusal(world.ctl(&format!("--token={token} get node {NODE}")));
        let refused = said.contains("Unauthorized") || said.contains("logged in");
        refused.then_some(()).ok_or(said)
    });
    world.rig().restart("kubelet").unwrap();
    world.wait_ready();
    world.apply(&pod("after", gpushare(2048)));
    world.card_of("after");
    world.agent.as_mut().unwrap().assert_alive();
}

fn started(pod: &Value) -> Value {
    pod["status"]["containerStatuses"][0]["containerID"].clone()
}
