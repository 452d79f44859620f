//! A cluster for screenshots: several models, teams, pods that wait, budgets.

use jiff::{Timestamp, ToSpan};
use serde_json::json;

use crate::cluster::{A100, Cluster, T4};

const H100: (&str, u64) = ("NVIDIA H100 80GB HBM3", 81_559);
const L40S: (&str, u64) = ("NVIDIA L40S", 46_068);

const TEAMS: [&str; 4] = ["vision", "language", "robotics", "research"];
const JOBS: [&str; 5] = ["train", "serve", "notebook", "embed", "eval"];

/// A number that looks random and is the same in every run.
fn varied(number: u64) -> u64 {
    let mixed = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

pub(crate) async fn cluster() -> Cluster {
    let cluster = Cluster::start().await;
    populate(&cluster).await;
    cluster
}

pub(crate) async fn populate(cluster: &Cluster) {
    for team in TEAMS {
        let labels = json!({"gpushare.io/team": team});
        cluster.add_namespace(team, &labels).await;
    }
    let pools = [
        ("a100", A100, 8, 6),
        ("h100", H100, 8, 4),
        ("l40s", L40S, 4, 8),
        ("t4", T4, 4, 6),
    ];
    let mut number = 0;
    for (pool, card, cards, nodes) in pools {
        for node in 1..=nodes {
            let name = format!("{pool}-{node:02}");
            let mut inventory = vec![card; cards];
            if name == "t4-06" {
                inventory[3] = L40S;
            }
            let sick = (name == "l40s-03").then_some(2);
            cluster.add_node_with_sick(&name, &inventory, sick).await;
            for index in 0..u32::try_from(cards).unwrap() {
                number += 1;
                fill(cluster, number, (&name, index), card.1).await;
            }
        }
    }
    for (name, size) in [("sweep-7", (61_440, 80)), ("sweep-8", (61_440, 80))] {
        cluster.add_pod("research", name, size).await;
    }
    let uid = cluster
        .add_pod("language", "pretrain-0", (96_000, 100))
        .await;
    let said =
        "0/24 nodes are available: 24 node(s) didn't have enough free GPU memory on one card.";
    cluster.say("language", "pretrain-0", &uid, said).await;
    budgets(cluster).await;
}

/// Places up to five pods on a card; some cards stay empty.
async fn fill(cluster: &Cluster, number: u64, on: (&str, u32), memory: u64) {
    let pods = varied(number) % 6;
    let mut left = memory;
    for pod in 0..pods {
        let luck = varied(number * 31 + pod);
        let size = (memory * (12 + luck % 24) / 100).min(left);
        left -= size;
        if size < 1024 {
            return;
        }
        let team = TEAMS[usize::try_from(luck / 7 % 4).unwrap()];
        let job = JOBS[usize::try_from(luck / 3 % 5).unwrap()];
        let name = format!("{job}-{number}-{pod}");
        let core = 5 + luck % 15;
        cluster.place(team, &name, on, (size, core)).await;
    }
}

async fn budgets(cluster: &Cluster) {
    let now = Timestamp::now();
    let hours = |hours: i64| (now + hours.hours()).to_string();
    let budget = |used: i64, held: i64, remaining: i64| {
        json!({
            "periodStart": hours(-400), "periodEnd": hours(320), "exhausted": remaining <= 0,
            "used": format!("{used}h"), "held": format!("{held}h"), "remaining": format!("{remaining}h"),
            "usedSeconds": used * 3600, "heldSeconds": held * 3600, "remainingSeconds": remaining * 3600,
        })
    };
    let mut vision = budget(1150, 12, 838);
    vision["exhaustsAt"] = hours(240).into();
    let all = [
        ("vision", "2000h", "Demote", vision),
        ("language", "6000h", "ThrottleNew", budget(2210, 40, 3750)),
        ("robotics", "500h", "EvictWithGrace", budget(500, 0, 0)),
    ];
    for (name, amount, ends, status) in all {
        let spec = json!({"amount": amount, "namespaces": {"team": name}, "whenExhausted": ends});
        cluster.add_budget(name, &spec, &status).await;
    }
}
