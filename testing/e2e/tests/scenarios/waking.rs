//! A pod that was refused for lack of room is bound because we wake it when room appears. Meanwhile its owner can read
//! why it waits.
//!
//! kube-scheduler tries refused pods again when it learns of a change, and it may learn of it before we do. Then we
//! refuse the pod again, although the room is free already, and nothing makes the scheduler come back before its five
//! minutes are over. The tests create that moment: they hold back the extender's watches until the scheduler has
//! tried again.

use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::api_proxy::ApiProxy;
use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, pod, priority_class};
use e2e::{Kubectl, World, wait};
use serde_json::{Value, json};

use crate::fragment;

const FILTERS: &str = "gpushare_extender_requests_total{verb=\"filter\",code=\"200\"}";
const WOKEN: &str = "gpushare_extender_wakes_total{outcome=\"woken\"}";
const WAITING: &str = "gpushare_extender_waiting_pods";
/// The scheduler's backoff is at most two seconds here: a pod that it has not tried for this long was not in its queue.
const QUIET: Duration = Duration::from_secs(10);

/// Starts the world, and an extender that follows it through a proxy.
fn start(wake: bool) -> (World, ApiProxy) {
    let mut world = World::start(&[8192, 8192]);
    world.setup.wake = wake;
    let proxy = ApiProxy::in_front_of(&mut world);
    (world, proxy)
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
    world.remove("third");
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
    let known = |booked: &Vec<u64>| *booked == [4, 0] || *booked == [0, 4];
    wait::until_seen("the free card to be known", || world.booked(), known);

    let calls = world.metric(FILTERS);
    assert_eq!(quiet(&world), calls, "the scheduler does not ask any more");
    let sits = world.pod("eight").unwrap();
    assert_eq!((node(&sits), woken(&sits)), (None, false), "{sits}");

    // The same, with wakes.
    world.remove("eight");
    world.remove("first");
    world.setup.wake = true;
    world.restart_extender();
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
    let mut urgent = priority_class("urgent", 1000);
    urgent["preemptionPolicy"] = json!("Never");
    world.apply(&urgent);
    for number in 0..30 {
        let mut waiting = pod(&format!("waits-{number}"), aliyun(8));
        if number == 17 {
            waiting["spec"]["priorityClassName"] = json!("urgent");
        }
        world.apply(&waiting);
    }
    let waiting = || world.metric(WAITING);
    wait::until_seen("all of them to wait", waiting, |waiting| *waiting == 30);
    assert_eq!(world.metric(WOKEN), 0);
    free_a_card_behind_our_back(&world, &proxy);
    world.wait_running("waits-17");
    quiet(&world);
    assert_eq!(world.metric(WOKEN), 1, "one card, one wake");
    let pods = world.pods().unwrap();
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
    let about = "eight,reason=NoCardFits";
    let events = world.events(about).unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["message"], summary);

    let answer = world.ask("/explain?namespace=default&pod=eight").unwrap();
    let explained = answer.json();
    assert_eq!(explained["standing"], "waiting");
    assert_eq!(explained["message"], summary);
    assert_eq!(explained["groups"][0]["lack"]["needed"], 8192);

    // More than the node's total: the scheduler itself refuses the pod, and never asks us.
    world.apply(&pod("sixteen", aliyun(16)));
    world.wait_event("sixteen", "Insufficient aliyun.com/gpu-mem");
    wait::until("the explanation of a pod that never reached us", || {
        let answer = world.ask("/explain?namespace=default&pod=sixteen")?;
        ensure!(answer.status == 200, "{answer:?}");
        let explained = answer.json();
        ensure!(explained["groups"][0]["kind"] == "too-small", "{explained}");
        Ok(())
    });

    world.delete("third");
    world.wait_running("eight");
    assert_eq!(world.events(about).unwrap().len(), 1);
}

#[test]
fn the_extender_may_change_nothing_of_a_pod_but_what_wakes_it() {
    let world = World::start(&[8192]);
    world.runs(&pod("tenant", aliyun(4)));
    let extender = "--as=system:serviceaccount:gpushare-system:gpushare-extender";
    let tenant = format!("pod tenant --type=strategic {extender}");
    let patch = |patch: &Value| world.patch(&tenant, patch);
    let wake = json!({"metadata": {"annotations": {"gpushare.io/woken": "now"}}});
    wait::until("the wake to be allowed", || patch(&wake));
    for forbidden in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"other": "x"}}}),
        json!({"metadata": {"annotations": {"gpushare.io/allocation": null}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"spec": {"containers": [{"name": "c", "image": "other"}]}}),
    ] {
        let error = refusal(patch(&forbidden));
        assert!(
            error.contains("may change nothing of a pod but"),
            "{forbidden}: {error}"
        );
    }
}
