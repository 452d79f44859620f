//! Three replicas that are all asked to bind the same pods, while connections break, requests are delayed, and
//! leases and processes are lost: no card is ever booked past its size, and in the end the books match the records.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use gpushare_apiserver::Times;
use gpushare_core::lease::Timing;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::api::{Following, binds, card_of, node_of, until};
use crate::asked::Asked;
use crate::cluster::{get, node};
use crate::replicas::{LEASE, Replica, give_back, lease_api};

const NAMES: [&str; 3] = ["a", "b", "c"];
const SIZE: u64 = 8;
/// At least this much must have happened before the end.
const BINDS: usize = 40;
const LEADERS: usize = 5;
const MOST_ROUNDS: u64 = 2_000;
/// Between two rounds, in milliseconds.
const PAUSE: u64 = 100;
/// The shortest that the binds of these tests allow.
const TIMING: Timing = Timing {
    duration: 2_000,
    renew_deadline: 600,
    retry: 100,
};

fn gib_of(pod: &Pod) -> u64 {
    let limits = &pod.spec.as_ref().unwrap().containers[0].resources;
    let limits = limits.as_ref().unwrap().limits.as_ref().unwrap();
    limits["aliyun.com/gpu-mem"].0.parse().unwrap()
}

/// GiB recorded on each card.
fn recorded(pods: &[Pod]) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for pod in pods.iter().filter(|pod| node_of(pod).is_some()) {
        *sums.entry(card_of(pod)).or_insert(0) += gib_of(pod);
    }
    sums
}

/// GiB booked on each card, as the replica knows it; cards without any are left out.
async fn booked(replica: &Replica) -> BTreeMap<String, u64> {
    let (_, body) = get(replica.extender(), "/gpushare-scheduler/inspect").await;
    let inspection: Value = serde_json::from_str(&body).unwrap();
    let mut sums = BTreeMap::new();
    for node in inspection["nodes"].as_array().unwrap() {
        for card in node["devs"].as_array().unwrap() {
            let name = format!("GPU-{}-{}", node["name"].as_str().unwrap(), card["id"]);
            let used = card["usedGPU"].as_u64().unwrap();
            if used > 0 {
                sums.insert(name, used);
            }
        }
    }
    sums
}

/// Causes a failure or repairs one, at random.
async fn disturb(cluster: &Following, replicas: &mut [Replica], dice: &mut Rng) {
    let faults = cluster.faults();
    let (choice, who) = (dice.u8(..40), dice.usize(..NAMES.len()));
    match choice {
        0..4 => {
            let slow = Duration::from_millis(dice.u64(..1_000));
            faults.delay(binds(), Times::Next(3), slow);
        }
        4..6 => drop(faults.cut_before(binds(), Times::Next(1))),
        6..8 => drop(faults.cut_after(binds(), Times::Next(1))),
        8..10 => drop(faults.cut_watches()),
        // The leader is cut off, often for long enough to lose the lease.
        10..12 => {
            for replica in replicas.iter() {
                if replica.is_ready().await {
                    replica.line.cut();
                }
            }
        }
        12..15 => replicas.iter().for_each(|replica| replica.line.mend()),
        15 if dice.u8(..3) == 0 => {
            let params = DeleteParams::default();
            let _gone_already = lease_api(cluster).delete(LEASE, &params).await;
        }
        16..18 => {
            replicas[who].tasks.shutdown().cancel();
            replicas[who] = Replica::start(cluster, NAMES[who], TIMING);
        }
        _ => {}
    }
}

#[tokio::test]
async fn replicas_that_are_all_asked_at_once_never_bind_past_a_card() {
    // The same numbers in every run.
    let mut dice = Rng::with_seed(42);
    let cluster = Following::prepare(&[node("n1", &[SIZE, SIZE]), node("n2", &[SIZE])]).await;
    give_back(&cluster).await;
    let mut replicas = NAMES.map(|name| Replica::start(&cluster, name, TIMING));
    let (mut leaders, mut bound, mut asked) = (Vec::new(), 0, JoinSet::new());
    for round in 0..MOST_ROUNDS {
        while let Some(answer) = asked.try_join_next() {
            bound += usize::from(answer.unwrap() == "");
        }
        leaders.dedup();
        if bound >= BINDS && leaders.len() >= LEADERS {
            break;
        }
        let pod = cluster.create(&format!("p{round}"), dice.u64(1..=4)).await;
        for replica in &replicas {
            let node = ["n1", "n2"][usize::from(dice.bool())];
            let (extender, pod) = (replica.extender().clone(), pod.clone());
            asked.spawn(async move { Asked::bind(&extender, &pod, node).await });
        }
        let pause = Duration::from_millis(dice.u64(..2 * PAUSE));
        tokio::time::sleep(pause).await;
        let ready = join_all(replicas.iter().map(Replica::is_ready)).await;
        assert!(
            ready.iter().filter(|ready| **ready).count() <= 1,
            "{ready:?}"
        );
        leaders.extend(ready.iter().position(|ready| *ready));
        disturb(&cluster, &mut replicas, &mut dice).await;

        let pods = cluster.list_pods().await;
        let sums = recorded(&pods);
        assert!(
            sums.values().all(|sum| *sum <= SIZE),
            "round {round}: {sums:?}"
        );
        let full = sums.values().sum::<u64>() > 2 * SIZE;
        for pod in pods.iter().filter(|_| full) {
            if dice.u8(..3) == 0 {
                cluster.delete(pod.metadata.name.as_deref().unwrap()).await;
            }
        }
    }
    cluster.faults().clear();
    for replica in &replicas {
        replica.line.mend();
    }
    asked.join_all().await;
    assert!(
        bound >= BINDS && leaders.len() >= LEADERS,
        "{bound} by {leaders:?}"
    );
    until("a leader's books are the records", async || {
        for replica in &replicas {
            if replica.is_ready().await
                && booked(replica).await == recorded(&cluster.list_pods().await)
            {
                return true;
            }
        }
        false
    })
    .await;
}
