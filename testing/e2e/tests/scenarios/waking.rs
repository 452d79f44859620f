//! A pod that was refused for lack of room is bound because we wake it when room appears. Meanwhile its owner can read
//! why it waits.
//!
//! kube-scheduler tries refused pods again when it learns of a change, and it may learn of it before we do. Then we
//! refuse the pod again, although the room is free already, and nothing makes the scheduler come back before its five
//! minutes are over. The tests create that moment: they hold back the extender's watches until the scheduler has
//! tried again.

use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::World;
use e2e::api_proxy::ApiProxy;
use e2e::manifest::{aliyun, pod};
use e2e::wait;
use serde_json::{Value, json};

const FILTERS: &str = "gpushare_extender_requests_total{verb=\"filter\",code=\"200\"}";
const WOKEN: &str = "gpushare_extender_wakes_total{outcome=\"woken\"}";
const WAITING: &str = "gpushare_extender_waiting_pods";
/// The scheduler's backoff is at most two seconds here: a pod that it has not tried for this long was not in its queue.
const QUIET: Duration = Duration::from_secs(10);

/// Starts the world, and an extender that follows it through a proxy.
fn start(wake: bool) -> (World, ApiProxy) {
    let mut world = World::start(&[8192, 8192]);
    let proxy = ApiProxy::start(&world, &world.kubeconfig("gpushare-extender"));
    proxy.write_kubeconfig(&world.kubeconfig("through-proxy"));
    restart(&mut world, wake);
    (world, proxy)
}

fn restart(world: &mut World, wake: bool) {
    world.extender.as_mut().unwrap().kill();
    world.wake_pods(wake);
    world.start_extender_with(&world.kubeconfig("through-proxy"));
    world.wait_ready();
}

/// Takes half of each card: 8 GiB of the node are free, but no card has 8 GiB free.
fn fragment(world: &World) {
    // The filler fills the first card, so that the third pod goes to the other one.
    for name in ["first", "filler", "third"] {
        world.apply(&pod(name, aliyun(4)));
        world.wait_running(name);
    }
    world.delete("filler");
    world.wait_gone("filler");
    assert_eq!(world.booked(), [4, 4]);
}

/// Waits until the scheduler has stopped asking, and returns how often it has asked.
fn quiet(world: &World) -> u64 {
    let (mut calls, mut since) = (world.metric(FILTERS), Instant::now());
    wait::until("the scheduler to stop asking", || {
        let now = world.metric(FILTERS);
        if now != calls {
            (calls, since) = (now, Instant::now());
        }
        if since.elapsed() < QUIET {
            return Err(calls);
        }
        Ok(calls)
    })
}

/// The third pod ends, the scheduler tries the waiting pods again, and only then does the extender learn of it.
fn free_a_card_behind_our_back(world: &World, proxy: &ApiProxy) {
    let before = quiet(world);
    proxy.hold_watches();
    world.delete("third");
    world.wait_gone("third");
    let after = quiet(world);
    assert!(after > before, "the scheduler has come for the free card");
    assert_eq!(world.booked(), [4, 4], "we have not heard of it");
    proxy.let_watches_go();
}

fn woken(pod: &Value) -> bool {
    pod["metadata"]["annotations"]["gpushare.io/woken"].is_string()
}

fn node(pod: &Value) -> Option<&str> {
    pod["spec"]["nodeName"].as_str()
}

#[test]
fn a_refused_pod_is_bound_by_our_wake_and_without_it_sits_beside_a_free_card() {
    let (mut world, proxy) = start(false);
    fragment(&world);
    world.apply(&pod("eight", aliyun(8)));
    world.wait_event("eight", "gpushare:");
    free_a_card_behind_our_back(&world, &proxy);
    wait::until("the free card to be known", || match world.booked() {
        booked if booked == [4, 0] || booked == [0, 4] => Ok(()),
        booked => Err(booked),
    });

    let calls = world.metric(FILTERS);
    assert_eq!(quiet(&world), calls, "the scheduler does not ask any more");
    let sits = world.pod("eight").unwrap();
    assert_eq!((node(&sits), woken(&sits)), (None, false), "{sits}");

    // The same, with wakes.
    world.delete("eight");
    world.wait_gone("eight");
    world.delete("first");
    world.wait_gone("first");
    restart(&mut world, true);
    fragment(&world);
    world.apply(&pod("eight", aliyun(8)));
    world.wait_event("eight", "gpushare:");
    free_a_card_behind_our_back(&world, &proxy);
    let bound = world.wait_running("eight");
    assert!(woken(&bound), "{bound}");
    assert_eq!(world.metric(WOKEN), 1);
}

#[test]
fn a_freed_card_wakes_one_of_thirty_and_the_most_urgent_one() {
    let (world, proxy) = start(true);
    fragment(&world);
    world.apply(&json!({
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "urgent"}, "value": 1000, "preemptionPolicy": "Never",
    }));
    for number in 0..30 {
        let mut waiting = pod(&format!("waits-{number}"), aliyun(8));
        if number == 17 {
            waiting["spec"]["priorityClassName"] = json!("urgent");
        }
        world.apply(&waiting);
    }
    wait::until("all of them to wait", || match world.metric(WAITING) {
        30 => Ok(()),
        fewer => Err(fewer),
    });
    assert_eq!(world.metric(WOKEN), 0);
    free_a_card_behind_our_back(&world, &proxy);
    world.wait_running("waits-17");
    quiet(&world);
    assert_eq!(world.metric(WOKEN), 1, "one card, one wake");
    let pods = world.object(&["get", "pods"]).unwrap();
    let pods = pods["items"].as_array().unwrap();
    assert_eq!(pods.iter().filter(|pod| woken(pod)).count(), 1);
    assert_eq!(pods.iter().filter(|pod| node(pod).is_some()).count(), 2);
}

#[test]
fn the_owner_of_a_waiting_pod_reads_one_event_that_sums_up_and_programs_read_more() {
    let world = World::start(&[8192, 8192]);
    fragment(&world);
    world.apply(&pod("eight", aliyun(8)));
    let reason = "no card has 8192 MiB of memory free, the most is 4096";
    let summary = format!("1 node: {reason}");
    world.wait_event("eight", &summary);
    let scheduler = world.wait_event("eight", &format!("gpushare: {reason}"));
    assert!(
        scheduler.starts_with("0/1 nodes are available"),
        "{scheduler}"
    );
    let about = "--field-selector=involvedObject.name=eight,reason=NoCardFits";
    let events = world.object(&["get", "events", about]).unwrap();
    let events = events["items"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["message"], summary);

    let answer = world.get("/explain?namespace=default&pod=eight").unwrap();
    let explained = answer.json();
    assert_eq!(explained["standing"], "waiting");
    assert_eq!(explained["message"], summary);
    assert_eq!(explained["groups"][0]["lack"]["needed"], 8192);

    // More than the node's total: the scheduler itself refuses the pod, and never asks us.
    world.apply(&pod("sixteen", aliyun(16)));
    world.wait_event("sixteen", "Insufficient aliyun.com/gpu-mem");
    wait::until("the explanation of a pod that never reached us", || {
        let answer = world.get("/explain?namespace=default&pod=sixteen")?;
        ensure!(answer.status == 200, "{answer:?}");
        let explained = answer.json();
        ensure!(explained["groups"][0]["kind"] == "too-small", "{explained}");
        Ok(())
    });

    world.delete("third");
    world.wait_running("eight");
    let events = world.object(&["get", "events", about]).unwrap();
    assert_eq!(events["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn the_extender_may_change_nothing_of_a_pod_but_what_wakes_it() {
    let world = World::start(&[8192]);
    world.apply(&pod("tenant", aliyun(4)));
    world.wait_running("tenant");
    let patch = |patch: &Value| {
        let patch = format!("--patch={patch}");
        world.rig().kubectl(&[
            "patch",
            "pod",
            "tenant",
            "--type=strategic",
            &patch,
            "--as=system:serviceaccount:gpushare-system:gpushare-extender",
        ])
    };
    let wake = json!({"metadata": {"annotations": {"gpushare.io/woken": "now"}}});
    wait::until("the wake to be allowed", || patch(&wake));
    for forbidden in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"other": "x"}}}),
        json!({"metadata": {"annotations": {"gpushare.io/allocation": null}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "other"}]}}),
    ] {
        let error = format!("{:#}", patch(&forbidden).unwrap_err());
        assert!(
            error.contains("may change nothing of a pod but"),
            "{forbidden}: {error}"
        );
    }
}
