//! A card is free again when the containers have ended, and not before.

use e2e::World;
use e2e::manifest::{aliyun, gpushare, pod, running};
use e2e::wait;

/// Ignores the request to end until the test lets it go.
const STUBBORN: &str = "trap 'while [ ! -e /tmp/let-go ]; do sleep 0.1; done; exit 0' TERM; while true; do sleep 0.2; done";

#[test]
fn a_pod_that_is_ending_keeps_its_card_until_its_container_has_ended() {
    let world = World::start(&[8192]);
    world.apply(&running("stubborn", STUBBORN, aliyun(6)));
    world.wait_running("stubborn");
    world.delete("stubborn");
    wait::until("the deletion to be recorded", || {
        match world.pod("stubborn") {
            Ok(pod) if pod["metadata"]["deletionTimestamp"].is_string() => Ok(()),
            other => Err(other),
        }
    });

    // The scheduler's own totals would allow the pod; the card does not.
    world.apply(&pod("early", gpushare(4096)));
    world.wait_event(
        "early",
        "no card has 4096 MiB of memory free, the most is 2048",
    );
    assert_eq!(world.booked(), [6]);
    let running = world.pod("stubborn").unwrap();
    assert!(
        running["status"]["containerStatuses"][0]["state"]["running"].is_object(),
        "{running}"
    );
    world.delete("early");

    world
        .rig()
        .kubectl(&["exec", "stubborn", "--", "touch", "/tmp/let-go"])
        .unwrap();
    world.wait_gone("stubborn");
    world.apply(&pod("late", gpushare(4096)));
    world.wait_running("late");
    assert_eq!(world.booked(), [4]);
}

#[test]
fn a_pod_that_has_finished_frees_its_card_while_its_object_stays() {
    let world = World::start(&[8192]);
    let mut job = running(
        "job",
        "while [ ! -e /tmp/let-go ]; do sleep 0.1; done",
        aliyun(6),
    );
    job["spec"]["restartPolicy"] = "Never".into();
    world.apply(&job);
    world.wait_running("job");
    assert_eq!(world.booked(), [6]);
    world
        .rig()
        .kubectl(&["exec", "job", "--", "touch", "/tmp/let-go"])
        .unwrap();
    wait::until("the job to succeed", || match world.pod("job") {
        Ok(pod) if pod["status"]["phase"] == "Succeeded" => Ok(()),
        other => Err(other),
    });
    wait::until("the card to be free", || match world.booked().as_slice() {
        [0] => Ok(()),
        other => Err(other.to_vec()),
    });
    world.apply(&pod("next", aliyun(6)));
    world.wait_running("next");
}
