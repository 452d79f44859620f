//! Invalid input is refused with a clear message; nothing is booked and nothing crashes.

use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, pod};
use e2e::world::{EXTENDER, NODE};
use e2e::{Kubectl, World, http, wait};
use gpushare_testkit::assert_contains;
use serde_json::{Value, json};

#[test]
fn requests_that_make_no_sense_are_refused_in_plain_words() {
    let mut world = World::start(&[8192, 8192]);
    world.apply(&pod("suffix", json!({"aliyun.com/gpu-mem": "10G"})));
    world.apply(&pod("nothing", json!({"aliyun.com/gpu-mem": 0})));
    world.apply(&pod("too-large", aliyun(9)));
    world.apply(&pod("no-slot", json!({"gpushare.io/gpu-mem": 1024})));
    let negative = pod("negative", json!({"aliyun.com/gpu-mem": -1}));
    let refused = refusal(world.try_apply(&negative));
    assert_contains(&refused, "must be greater than or equal to 0");

    let expected = [
        (
            "suffix",
            "means 10000000000 GiB, more than any card has; the unit is GiB",
        ),
        ("nothing", "\"0\" asks for nothing; write at least 1 GiB"),
        (
            "too-large",
            "no card has 9216 MiB of memory in all, the most is 8192",
        ),
        (
            "no-slot",
            "write gpushare.io/gpu: 1, or how many cards the container needs",
        ),
    ];
    for (name, part) in expected {
        world.wait_event(name, part);
        let node = world.pod(name).unwrap()["spec"]["nodeName"].take();
        assert_eq!(node, Value::Null, "{name}");
    }
    assert_eq!(world.booked(), [0, 0]);
    still_works(&mut world);
}

#[test]
fn a_forged_record_buys_nothing() {
    let mut world = World::start(&[8192, 8192]);
    let forged = || {
        let mut pod = pod("forged", aliyun(4));
        let record = json!({
            "version": 2, "pod": "00000000-0000-0000-0000-000000000000", "node": NODE,
            "containers": [{"name": "c", "class": "gpu", "cards": [
                {"id": world.card_sizes().keys().next().unwrap(), "amounts": {"memory": 4096}}]}],
        });
        pod["metadata"]["annotations"] = json!({"gpushare.io/allocation": record.to_string()});
        pod["spec"]["nodeName"] = json!(NODE);
        pod
    };

    // Kubernetes itself refuses it, even for an administrator.
    let refused = refusal(world.try_apply(&forged()));
    assert_contains(&refused, "written by the gpushare extender alone");

    // Without that policy the pod reaches the node, where the agent refuses it. The books never accepted it.
    world
        .ctl("delete validatingadmissionpolicybinding gpushare-allocation-records")
        .unwrap();
    wait::until("the policy to be gone", || world.try_apply(&forged()));
    let said = |pod: &Value| {
        let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
        waiting["message"].as_str().unwrap_or_default().to_owned()
    };
    let refused = world.wait_pod("forged", "the agent refuses its container", |pod| {
        said(pod).contains("gpushare")
    });
    assert_contains(&said(&refused), "belongs to another pod");
    assert_eq!(world.booked(), [0, 0]);
    still_works(&mut world);
}

#[test]
fn hostile_bodies_do_not_disturb_the_extender() {
    let mut world = World::start(&[8192, 8192]);
    let huge = format!(
        "{{\"Pod\":{{\"metadata\":{{\"name\":\"{}\"}}}}",
        "x".repeat(10 << 20)
    );
    let nested = "[".repeat(200_000);
    let bodies: [&str; 6] = ["", "{\"Pod\":{\"meta", "[]", "null", &huge, &nested];
    for verb in ["filter", "prioritize", "bind", "preempt"] {
        let post = format!("POST /gpushare-scheduler/{verb}");
        for body in bodies {
            let send = || http::send(EXTENDER, &post, &[], body.as_bytes());
            let answer = world.rig().run(send).unwrap();
            assert!(
                (400..500).contains(&answer.status),
                "{verb} {body:.30}: {answer:?}"
            );
            let error = answer.json();
            assert!(
                error["Error"].as_str().is_some_and(|text| !text.is_empty()),
                "{answer:?}"
            );
        }
        // Announces a longer body than it sends.
        let longer = [("Content-Length", "100000")];
        let send = || http::send(EXTENDER, &post, &longer, b"{\"Pod\":");
        let _ = world.rig().run(send);
    }
    assert_eq!(world.booked(), [0, 0]);
    still_works(&mut world);
}

/// Checks that both parts are alive and that a valid pod still runs.
fn still_works(world: &mut World) {
    world.assert_alive();
    world.runs(&pod("good", aliyun(2)));
    assert_eq!(world.booked().iter().sum::<u64>(), 2);
}
