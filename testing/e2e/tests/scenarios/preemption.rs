//! Preemption on the real scheduler: pods of lower priority are evicted, card by card, and no other pod takes their
//! room.

use std::path::Path;

use anyhow::Result;
use e2e::history::History;
use e2e::kubectl::refusal;
use e2e::manifest::{aliyun, annotated, disruption_budget, pod, priority_class, running};
use e2e::world::{NODE, client, recorded_card};
use e2e::{Kubectl, World, wait};
use gpushare_kube::slim;
use gpushare_testkit::assert_contains;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{STUBBORN, let_go};

const ASKED: &str = "gpushare_extender_requests_total{verb=\"preempt\",code=\"200\"}";
const CLAIMS: &str = "gpushare_extender_claims";

fn world(cards: &[u64]) -> World {
    let world = World::start(cards);
    for (name, value) in [("low", 10), ("middle", 20), ("high", 30)] {
        world.apply(&priority_class(name, value));
    }
    world
}

fn of_class(mut pod: Value, class: &str) -> Value {
    pod["spec"]["priorityClassName"] = json!(class);
    let name = pod["metadata"]["name"].clone();
    pod["metadata"]["labels"]["app"] = name;
    pod
}

/// Two cards of 8 GiB with a pod of 5 GiB on each: 6 GiB are free in total, and 3 GiB on each card.
fn fragment(world: &World, classes: [&str; 2]) {
    for (name, class) in ["first", "second"].into_iter().zip(classes) {
        world.runs(&of_class(pod(name, aliyun(5)), class));
    }
    assert_eq!(world.booked(), [5, 5]);
}

fn protect(world: &World, app: &str) {
    world.apply(&disruption_budget(app));
    wait::until("the budget to be counted", || {
        let budget = world.get(&format!("poddisruptionbudget {app}"))?;
        let status = &budget["status"];
        let counted = status["observedGeneration"] == 1 && status["currentHealthy"] == 1;
        anyhow::ensure!(counted && status["disruptionsAllowed"] == 0, "{status}");
        Ok(())
    });
}

#[test]
fn where_the_total_suffices_and_no_card_does_one_pod_is_evicted_and_the_other_runs_on() {
    let world = world(&[8192, 8192]);
    fragment(&world, ["low", "low"]);
    let history = History::record(&world);
    let high = world.runs(&of_class(pod("high", aliyun(6)), "high"));
    let evicted: Vec<&str> = ["first", "second"]
        .into_iter()
        .filter(|name| !world.is_left(name))
        .collect();
    let [evicted] = evicted.as_slice() else {
        panic!("exactly one pod had to go, not {evicted:?}");
    };
    let said = world.wait_event(evicted, "preempted by pod");
    assert!(said.contains("on node node"), "{said}");
    world.wait_event("high", "1 pod of lower priority is evicted from GPU-");
    let claim = &high["metadata"]["annotations"]["gpushare.io/preemption"];
    let claim: Value = serde_json::from_str(claim.as_str().unwrap()).unwrap();
    let claimed = &claim["room"]["containers"][0]["cards"][0]["id"];
    assert_eq!(claimed, world.card_of("high").as_str());
    history.assert_never_over(&world.card_sizes());
}

#[test]
fn where_all_cards_are_full_the_scheduler_asks_and_the_cheapest_card_is_freed_and_no_other() {
    let world = world(&[8192, 8192]);
    let pods = [
        ("one", "low"),
        ("two", "middle"),
        ("three", "low"),
        ("four", "low"),
    ];
    for (name, class) in pods {
        world.runs(&of_class(pod(name, aliyun(4)), class));
    }
    assert_eq!(world.booked(), [8, 8]);
    let card = recorded_card(&world.pod("three").unwrap());
    let history = History::record(&world);
    let high = world.runs(&of_class(pod("high", aliyun(8)), "high"));
    let left: Vec<bool> = pods.map(|(name, _)| world.is_left(name)).to_vec();
    assert_eq!(left, [true, true, false, false]);
    assert_eq!(recorded_card(&high), card);
    assert_eq!(world.booked(), [8, 8]);
    assert!(world.metric(ASKED) > 0, "the scheduler asks whom to evict");
    history.assert_never_over(&world.card_sizes());
}

#[test]
fn a_disruption_budget_is_respected_another_pod_goes_or_none_and_the_owner_reads_why() {
    let world = world(&[8192, 8192]);
    fragment(&world, ["low", "middle"]);
    protect(&world, "first");
    world.runs(&of_class(pod("high", aliyun(6)), "high"));
    assert!(world.is_left("first"));
    world.wait_event("second", "preempted by pod");

    // Now only the protected pod has a lower priority.
    world.apply(&of_class(pod("waits", aliyun(4)), "high"));
    world.wait_event("waits", "disruption budgets do not let them go");
    assert!(world.is_left("first"));
    assert_eq!(world.pod("waits").unwrap()["status"]["phase"], "Pending");
    world.ctl("delete poddisruptionbudget first").unwrap();
    world.wait_running("waits");
    assert!(!world.is_left("first"));
}

#[test]
fn who_is_of_equal_priority_or_must_not_preempt_waits() {
    let world = world(&[8192, 8192]);
    fragment(&world, ["middle", "middle"]);
    world.apply(&of_class(pod("equal", aliyun(6)), "middle"));
    let mut patient = priority_class("patient", 30);
    patient["preemptionPolicy"] = json!("Never");
    world.apply(&patient);
    world.apply(&of_class(pod("never", aliyun(6)), "patient"));
    for waits in ["equal", "never"] {
        world.wait_event(waits, "no card has 6144 MiB of memory free");
    }
    // A later pod that may preempt gets its room. The two that may not have evicted no pod and get nothing.
    world.runs(&of_class(pod("high", aliyun(6)), "high"));
    for waits in ["equal", "never"] {
        assert_eq!(world.pod(waits).unwrap()["status"]["phase"], "Pending");
    }
    let left = ["first", "second"]
        .iter()
        .filter(|name| world.is_left(name));
    assert_eq!(left.count(), 1);
}

/// Room for `high` is kept on the card of a pod that is being deleted and has not ended yet.
///
/// There are four cards of 8 GiB, with 5 GiB taken on each. Without the claim, a pod of 4 GiB would be scheduled as
/// soon as one of the pods of 5 GiB has ended.
fn awaited() -> World {
    let world = world(&[8192; 4]);
    let mut victim = of_class(running("victim", STUBBORN, aliyun(5)), "low");
    // Longer than any test takes, so that the pod ends only when the test lets it go.
    victim["spec"]["terminationGracePeriodSeconds"] = json!(600);
    world.runs(&victim);
    for name in ["second", "third", "fourth"] {
        world.runs(&of_class(pod(name, aliyun(5)), "middle"));
    }
    world.apply(&of_class(pod("high", aliyun(6)), "high"));
    world.wait_pod("victim", "it is told to go", |pod| {
        pod["metadata"]["deletionTimestamp"].is_string()
    });
    world
}

/// No other pod gets what is kept for `high`, neither before nor after the victim has ended.
fn assert_kept(world: &World) {
    world.apply(&of_class(pod("thief", aliyun(4)), "low"));
    world.wait_event("thief", "no card has 4096 MiB of memory free");
    let_go(world, "victim");
    world.wait_running("high");
    assert!(!world.is_left("victim"));
    let thief = world.pod("thief").unwrap();
    assert_eq!(thief["spec"]["nodeName"], Value::Null, "{thief}");
    let mut booked = world.booked();
    booked.sort_unstable();
    assert_eq!(booked, [5, 5, 5, 6]);
}

#[test]
fn room_that_was_freed_for_one_pod_is_not_taken_by_another() {
    let world = awaited();
    assert_kept(&world);
}

#[test]
fn an_extender_that_is_killed_in_between_keeps_the_room_and_goes_on() {
    let mut world = awaited();
    world.restart_extender();
    assert_kept(&world);
}

#[test]
fn a_preemptor_that_is_deleted_leaves_the_room_to_others() {
    let world = awaited();
    world.remove("high");
    world.apply(&of_class(pod("next", aliyun(4)), "low"));
    world.wait_event("next", "no card has 4096 MiB of memory free");
    let_go(&world, "victim");
    world.wait_running("next");
    assert_eq!(world.metric(CLAIMS), 0);
}

fn change_status(world: &World, kubeconfig: &Path, pod: &str, patch: &Value) -> Result<()> {
    world.rig().run(|| async {
        let pods: Api<slim::Pod> = Api::default_namespaced(client(kubeconfig).await);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        pods.patch_status(pod, &params, &patch).await?;
        Ok(())
    })
}

#[test]
fn nobody_but_the_extender_claims_room_and_it_may_change_nothing_else_of_a_status() {
    let world = world(&[8192]);
    world.apply(&of_class(pod("tenant", aliyun(9)), "low"));
    world.wait_event("tenant", "Insufficient aliyun.com/gpu-mem");
    let admin = world.rig().kubeconfig();
    let extender = world.kubeconfig("gpushare-extender");
    let status = |user: &Path, patch: &Value| change_status(&world, user, "tenant", patch);
    let claim = json!({"metadata": {"annotations": {"gpushare.io/preemption": "{}"}}});
    let forged = annotated(pod("forged", aliyun(4)), "gpushare.io/preemption", "{}");
    let annotate = "annotate pod tenant gpushare.io/preemption={}";
    for refused in [
        world.try_apply(&forged).map(drop),
        world.ctl(annotate).map(drop),
        status(&admin, &claim),
    ] {
        assert_contains(&refusal(refused), "written by the gpushare extender alone");
    }

    status(&extender, &json!({"status": {"nominatedNodeName": NODE}})).unwrap();
    status(&extender, &claim).unwrap();
    let ran = json!({"name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 0});
    for forbidden in [
        json!({"metadata": {"labels": {"app": "other"}}}),
        json!({"metadata": {"annotations": {"other": "x"}}}),
        json!({"metadata": {"annotations": {"gpushare.io/allocation": "{}"}}}),
        json!({"metadata": {"finalizers": ["example.com/mine"]}}),
        json!({"status": {"phase": "Failed"}}),
        json!({"status": {"message": "x"}}),
        json!({"status": {"conditions": []}}),
        json!({"status": {"containerStatuses": [ran]}}),
        json!({"status": {"initContainerStatuses": [ran]}}),
        json!({"status": {"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}}),
        json!({"status": {"startTime": "2026-01-01T00:00:00Z"}}),
    ] {
        let error = refusal(status(&extender, &forbidden));
        assert!(
            error.contains("may change nothing of a pod's status but"),
            "{forbidden}: {error}"
        );
    }
    // The claim's content is not valid, so it is not accepted.
    assert_eq!(world.metric(CLAIMS), 0);
}
