//! Equal pods at the same time: the node must distinguish them by identity, never by size.

use e2e::history::History;
use e2e::manifest::crowd;
use e2e::rng::Rng;
use e2e::world::{EXTENDER, NODE, recorded_card};
use e2e::{Kubectl, World, http, wait};
use futures::StreamExt;
use serde_json::{Value, json};

const PODS: usize = 100;
/// `cargo xtask soak` asks for more.
const ROUNDS: u64 = 5;
const BINDS_AT_ONCE: usize = 16;

#[test]
fn a_hundred_equal_pods_bound_in_any_order_each_see_the_card_of_their_record() {
    let world = World::start(&[13 * 1024; 8]);
    let rounds = e2e::setting("GPUSHARE_SOAK_ROUNDS", ROUNDS);
    for round in 0..rounds {
        let history = History::record(&world);
        create(&world, round);
        bind_shuffled(&world, round);
        history.wait_for_bound(PODS);
        for pod in wait_all_running(&world) {
            let name = pod["metadata"]["name"].as_str().unwrap();
            let seen = &world.env_logged(name)["NVIDIA_VISIBLE_DEVICES"];
            assert_eq!(seen, recorded_card(&pod).as_str(), "round {round}, {name}");
        }
        world.ctl("delete pods --all --grace-period=1").unwrap();
        world.wait_free();
        history.assert_never_over(&world.card_sizes());
    }
    println!("{rounds} rounds of {PODS} equal pods: each saw its own card");
}

/// Creates pods that no scheduler handles: the test binds them itself.
fn create(world: &World, round: u64) {
    let unscheduled = |pod: &mut Value| pod["spec"]["schedulerName"] = json!("nobody");
    world.apply(&crowd(&format!("r{round}"), 0..PODS, unscheduled));
}

fn bind_shuffled(world: &World, seed: u64) {
    let mut pods = world.pods().unwrap();
    assert_eq!(pods.len(), PODS);
    Rng::new(seed + 1).shuffle(&mut pods);
    let answers: Vec<http::Answer> = world.rig().run(|| async {
        futures::stream::iter(pods)
            .map(|pod| async move {
                let meta = &pod["metadata"];
                let args = json!({
                    "PodName": meta["name"], "PodNamespace": meta["namespace"],
                    "PodUID": meta["uid"], "Node": NODE,
                });
                http::post(EXTENDER, "/gpushare-scheduler/bind", &args)
                    .await
                    .unwrap()
            })
            .buffer_unordered(BINDS_AT_ONCE)
            .collect()
            .await
    });
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:?}");
        let result = answer.json();
        assert!(
            matches!(result["Error"].as_str(), None | Some("")),
            "{answer:?}"
        );
    }
}

fn wait_all_running(world: &World) -> Vec<Value> {
    wait::until("all pods to run", || {
        let pods = world.pods().map_err(|error| error.to_string())?;
        let ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == json!(true);
        match pods.iter().filter(ready).count() {
            PODS => Ok(pods),
            some => {
                let waiting = pods.iter().find(|pod| !ready(pod)).map(state_of);
                Err(format!("{some} of {PODS}, and not {waiting:?}"))
            }
        }
    })
}

/// What the kubelet reports about a pod that does not run.
fn state_of(pod: &Value) -> String {
    let (name, status) = (&pod["metadata"]["name"], &pod["status"]);
    let container = &status["containerStatuses"][0];
    let restarts = &container["restartCount"];
    format!(
        "{name}: {} {} {}, {restarts} restarts, before that {}",
        status["phase"], status["reason"], container["state"], container["lastState"]
    )
}
