//! A card is free again when the containers have ended, and not before.

use e2e::manifest::{aliyun, gpushare, pod, running};
use e2e::{Kubectl, World};

use crate::{STUBBORN, let_go};

#[test]
fn a_pod_that_is_ending_keeps_its_card_until_its_container_has_ended() {
    let world = World::start(&[8192]);
    world.runs(&running("stubborn", STUBBORN, aliyun(6)));
    world.delete("stubborn");
    world.wait_pod("stubborn", "its deletion is recorded", |pod| {
        pod["metadata"]["deletionTimestamp"].is_string()
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

    let_go(&world, "stubborn");
    world.wait_gone("stubborn");
    world.runs(&pod("late", gpushare(4096)));
    assert_eq!(world.booked(), [4]);
}

#[test]
fn a_pod_that_has_finished_frees_its_card_while_its_object_stays() {
    let world = World::start(&[8192]);
    let script = "while [ ! -e /tmp/let-go ]; do sleep 0.1; done";
    let mut job = running("job", script, aliyun(6));
    job["spec"]["restartPolicy"] = "Never".into();
    world.runs(&job);
    assert_eq!(world.booked(), [6]);
    let_go(&world, "job");
    world.wait_pod("job", "it has succeeded", |pod| {
        pod["status"]["phase"] == "Succeeded"
    });
    world.wait_free();
    world.runs(&pod("next", aliyun(6)));
}
