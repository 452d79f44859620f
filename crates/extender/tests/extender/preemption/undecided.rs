//! Pods for which it takes too long to find the victims.

use axum::http::StatusCode;
use gpushare_testkit::assert_contains;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::verb::question;
use crate::api::{Following, until};
use crate::asked::Asked;
use crate::cluster::{node, post};

const UNEQUAL: [u64; 8] = [16, 15, 14, 13, 12, 11, 10, 10];

/// Three nodes on which only trying every order shows that nine cards are needed, and one node with nine cards. Each
/// has a pod of low priority.
async fn cluster() -> Following {
    let hard = |name| node(name, &UNEQUAL);
    let nodes = [hard("a"), hard("b"), hard("c"), node("d", &[10; 9])];
    let cluster = Following::with_priorities(&nodes).await;
    for (low, node) in [("in-a", "a"), ("in-b", "b"), ("in-c", "c"), ("in-d", "d")] {
        cluster.runs(low, 10, "low", node).await;
    }
    cluster.until_confirmed(4).await;
    cluster
}

impl Following {
    /// A pod of nine containers, of which no card takes two.
    async fn create_hard(&self) -> Pod {
        let container = |at: u64| {
            let mib = 9_000 + at * 37 % 101;
            let limits = json!({"gpushare.io/gpu": "1", "gpushare.io/gpu-mem": mib.to_string()});
            json!({"name": format!("c{at}"), "image": "none", "resources": {"limits": limits}})
        };
        let containers: Value = (0..9).map(container).collect();
        let spec = json!({"priorityClassName": "high", "containers": containers});
        self.create_with("hard", 1, spec).await
    }

    async fn looks(&self, outcome: &str) -> bool {
        let name = format!("preemptions_total{{outcome=\"{outcome}\"}}");
        self.metric(&name).await.is_some_and(|count| count > 0)
    }
}

#[tokio::test]
async fn nodes_that_take_too_long_do_not_hide_one_where_somebody_can_go() {
    let cluster = cluster().await;
    let hard = cluster.create_hard().await;
    cluster.refuses(&hard, &["a", "b", "c", "d"]).await;
    assert_eq!(cluster.victim_of("hard").await, "in-d");
}

#[tokio::test]
async fn where_the_steps_did_not_suffice_nobody_is_not_the_answer() {
    let cluster = cluster().await;
    let hard = cluster.create_hard().await;
    cluster.refuses(&hard, &["a", "b", "c"]).await;
    until("victims were looked for", async || {
        cluster.looks("failed").await || cluster.looks("no_victims").await
    })
    .await;
    assert!(!cluster.looks("no_victims").await, "it is not known");
    assert_eq!(cluster.metric("claims").await, Some(0));
}

#[tokio::test]
async fn the_verb_finds_a_node_behind_those_that_take_too_long_and_says_when_it_does_not_know() {
    let cluster = cluster().await;
    let hard = cluster.create_hard().await;
    let (a, b) = (cluster.read("in-a").await, cluster.read("in-b").await);
    let (c, d) = (cluster.read("in-c").await, cluster.read("in-d").await);
    let offers: [(&str, &[&Pod]); 4] = [("a", &[&a]), ("b", &[&b]), ("c", &[&c]), ("d", &[&d])];
    let body = question(&hard, &offers[..3]).to_string();
    let (status, said) = post(&cluster.extender, "preempt", body).await;
    let said = String::from_utf8_lossy(&said);
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
    assert_contains(&said, "steps it was not found out who would have to go");
    let result = cluster.preempt(&hard, &offers).await;
    assert_eq!(result.nodes(), ["d"]);
}
