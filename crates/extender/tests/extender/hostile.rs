//! Pods whose containers are hard to place: they wait for their answer, and no other requests do.

use std::pin::pin;

use axum::http::StatusCode;
use futures::poll;
use gpushare_extender::Extender;
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::cluster::{call, extender, get, node, pod, pod_of_gib};

const UNEQUAL: [u64; 8] = [16, 15, 14, 13, 12, 11, 10, 10];

/// A pod whose containers ask for these numbers of cards and MiB of each.
fn containers(name: &str, asks: impl Iterator<Item = (u64, u64)>) -> Value {
    let each = asks.enumerate().map(|(at, (cards, mib))| {
        let limits =
            json!({"gpushare.io/gpu": cards.to_string(), "gpushare.io/gpu-mem": mib.to_string()});
        json!({"name": format!("c{at}"), "resources": {"limits": limits}})
    });
    let mut hostile = pod(name, &json!({}));
    hostile["spec"]["containers"] = each.collect();
    hostile
}

fn many(number: u64) -> Value {
    let asks = (0..number).map(|at| (2 + at % 3, 97 + at * 7_919 % 1_301));
    containers("hostile", asks)
}

/// Nine containers for eight cards, none of which takes two: proving that takes trying every order.
fn hard() -> Value {
    containers("hard", (0..9).map(|at| (1, 9_000 + at * 37 % 101)))
}

async fn filter(extender: &Extender, pod: &Value, nodes: &[String]) -> Value {
    let body = json!({"Pod": pod, "NodeNames": nodes});
    call(extender, "filter", &body).await
}

#[test]
fn others_are_answered_while_a_hostile_pod_is_searched_for() {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    runtime.block_on(async {
        let nodes = ["a".to_owned(), "b".to_owned()];
        let cluster = extender(&[node("a", &UNEQUAL), node("b", &UNEQUAL)], &[]);
        // The only thread for long work is busy until it is released.
        let (release, told) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || told.recv());
        let hostile = many(24);
        let mut search = pin!(filter(&cluster, &hostile, &nodes));
        for _ in 0..100 {
            assert!(
                poll!(&mut search).is_pending(),
                "the search ran where everybody is answered"
            );
            tokio::task::yield_now().await;
        }
        let (ready, _) = get(&cluster, "/readyz").await;
        assert_eq!(ready, StatusCode::OK);
        let (inspected, _) = get(&cluster, "/gpushare-scheduler/inspect").await;
        assert_eq!(inspected, StatusCode::OK);
        let ordinary = filter(&cluster, &pod_of_gib("ordinary", 3), &nodes).await;
        assert_eq!(ordinary["NodeNames"], json!(nodes));
        drop(release);
        assert!(busy.await.unwrap().is_err(), "nothing was sent");
        assert_eq!(search.await["NodeNames"], json!(nodes));
    });
}

#[tokio::test]
async fn what_one_try_did_not_get_to_is_looked_at_by_the_next() {
    let names: Vec<String> = (0..70).map(|at| format!("n{at}")).collect();
    let nodes: Vec<Value> = names.iter().map(|name| node(name, &UNEQUAL)).collect();
    let cluster = extender(&nodes, &[]);
    let pod = hard();
    let mut tries = 1;
    let last = loop {
        // The scheduler asks about other pods with several containers in between.
        for other in 1..=15 {
            let pod = containers("other", [(1, other), (1, other)].into_iter());
            filter(&cluster, &pod, &names[..1]).await;
        }
        let answer = filter(&cluster, &pod, &names).await;
        let Some(error) = answer["Error"].as_str().filter(|error| !error.is_empty()) else {
            break answer;
        };
        assert!(
            error.ends_with("the next attempt continues where this one stopped"),
            "{error}"
        );
        tries += 1;
        assert!(tries < 10, "{tries} tries and no end");
    };
    assert!(tries > 1, "it was decided at once");
    let refused = last["FailedAndUnresolvableNodes"].as_object().unwrap();
    assert_eq!(refused.len(), names.len());
    for reason in refused.values() {
        assert_eq!(
            reason,
            "gpushare: the search gave up after 10000 steps for 9 containers that share cards: \
             use fewer containers, or ask for whole cards"
        );
    }
}

#[tokio::test]
async fn a_pod_past_the_limits_is_refused_before_it_is_searched_for() {
    let cluster = extender(&[node("a", &UNEQUAL)], &[]);
    let answer = filter(&cluster, &many(33), &["a".to_owned()]).await;
    let reason = answer["FailedAndUnresolvableNodes"]["a"].as_str().unwrap();
    assert!(
        reason.ends_with("is the request number 33; ask in at most 32 containers of a pod"),
        "{reason}"
    );
}
