//! A container can outlive its pod's object: a forced deletion removes the object at once, and the kubelet still gives
//! the container its whole grace period. Until the container has ended, no other pod gets its card.

use std::fs;
use std::path::PathBuf;

use e2e::manifest::{RUN, aliyun, running};
use e2e::{Kubectl, World, wait};
use serde_json::{Value, json};

/// A directory of the node in which containers record what really happens to them, whatever the API server shows.
const NOTES: &str = "/var/lib/notes";

/// Ignores the signal to end until the test lets it go.
const HOLDER: &str = "trap 'touch /notes/asked; while [ ! -e /notes/let-go ]; do sleep 0.1; done; touch /notes/ended; exit 0' TERM; \
                      while true; do sleep 0.2; done";

fn note(world: &World, name: &str) -> PathBuf {
    world.rig().path(&format!("{NOTES}/{name}"))
}

/// A pod with 6 of the 8 GiB, which can write to the notes of its node.
fn pod(name: &str, script: &str) -> Value {
    let mut pod = running(name, script, aliyun(6));
    pod["spec"]["terminationGracePeriodSeconds"] = json!(3600);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "notes", "mountPath": "/notes"}]);
    pod["spec"]["volumes"] =
        json!([{"name": "notes", "hostPath": {"path": NOTES, "type": "DirectoryOrCreate"}}]);
    pod
}

/// A pod that notes if it runs beside the holder.
fn heir() -> Value {
    pod(
        "heir",
        &format!("[ -e /notes/ended ] || touch /notes/beside; {RUN}"),
    )
}

fn assert_alone(world: &World) {
    assert!(
        !note(world, "beside").exists(),
        "the heir ran on the card beside the container of the pod whose object is gone"
    );
}

/// Creates a holder, deletes its object, and leaves its container running.
fn outlive(world: &World) {
    world.runs(&pod("holder", HOLDER));
    world.delete("holder");
    let asked = || note(world, "asked").exists();
    wait::until_seen("the container to be asked to end", asked, |asked| *asked);
    world
        .ctl("delete pod holder --force --grace-period=0")
        .unwrap();
    world.wait_gone("holder");
}

#[test]
fn a_container_that_outlives_its_pods_object_keeps_its_card_until_it_has_ended() {
    let mut world = World::start(&[8192]);
    outlive(&world);
    world.apply(&heir());
    let events = || {
        assert_alone(&world);
        format!("{:?}", world.events("heir").unwrap())
    };
    wait::until_seen("the heir to be refused", events, |events| {
        events.contains("containers of a pod that no longer exists")
    });

    // The next agent finds the containers to which the previous one gave the card.
    world.restart_agent();
    let booked = || {
        assert_alone(&world);
        world.booked()
    };
    wait::until_seen("the card to be shown as used", booked, |booked| {
        *booked == [6]
    });

    fs::write(note(&world, "let-go"), "").unwrap();
    world.wait_running("heir");
    assert!(note(&world, "ended").exists());
    assert_alone(&world);
    let held = || {
        let node = world.get("node node").unwrap();
        node["metadata"]["annotations"]["gpushare.io/held"].clone()
    };
    wait::until_seen("nothing to be held any more", held, Value::is_null);
    assert_eq!(world.booked(), [6]);
}
