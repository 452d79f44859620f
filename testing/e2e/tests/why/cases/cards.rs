//! Cards that are not suitable, and invalid requests.

use e2e::manifest::{and, annotated, gpushare};
use e2e::paper::PaperNode;
use serde_json::json;

use super::{Case, alone, beside, case, node, on, pod, subject};

pub(super) fn all() -> Vec<Case> {
    [of_cards(), of_requests()].into_iter().flatten().collect()
}

fn of_cards() -> Vec<Case> {
    let holds = |mib| vec![pod("holder", gpushare(mib))];
    let whole = json!({"gpushare.io/gpu": 1});
    let mut sick = node(&[16384]);
    sick.healthy = false;
    vec![
        case(
            "room",
            vec![node(&[16384])],
            holds(12288),
            subject(gpushare(8192)),
        )
        .is(
            "no-room",
            "no card has 8192 MiB of memory free, the most is 4096",
        ),
        case(
            "fragments",
            vec![node(&[8192]), PaperNode::new("b", &[8192])],
            vec![
                on(pod("one", gpushare(5120)), "a"),
                on(pod("two", gpushare(5120)), "b"),
            ],
            subject(gpushare(6144)),
        )
        .is(
            "no-room",
            "6144 MiB of memory are free in all, but scattered over 2 cards",
        ),
        case(
            "whole",
            vec![node(&[16384])],
            holds(1024),
            subject(whole.clone()),
        )
        .is("no-room", "1 unused card needed, 0 free"),
        beside(
            "two-holders",
            vec![pod("one", gpushare(1024)), pod("two", gpushare(1024))],
            subject(whole),
        )
        .is("no-room", "1 unused card needed"),
        beside(
            "compute",
            vec![pod(
                "holder",
                and(gpushare(1024), "gpushare.io/gpu-core", 80),
            )],
            subject(and(gpushare(1024), "gpushare.io/gpu-core", 50)),
        )
        .is("no-room", "no card has 50 % of core free, the most is 20"),
        alone("too-large", subject(gpushare(32768)))
            .is("cards-too-small", "no card has 32768 MiB of memory in all"),
        alone(
            "too-many",
            subject(json!({"gpushare.io/gpu": 2, "gpushare.io/gpu-mem": 1024})),
        )
        .is("cards-too-small", "2 cards needed, the node has 1"),
        case("sick", vec![sick], vec![], subject(gpushare(1024)))
            .is("card-health", "the cards that have room are unhealthy"),
        alone(
            "model",
            annotated(subject(gpushare(1024)), "gpushare.io/card-models", "H100"),
        )
        .is("card-selectors", "selectors exclude"),
        alone(
            "card-id",
            annotated(subject(gpushare(1024)), "gpushare.io/card-ids", "GPU-none"),
        )
        .is("card-selectors", "selectors exclude"),
        beside(
            "aliyun-room",
            vec![pod("holder", json!({"aliyun.com/gpu-mem": 12}))],
            subject(json!({"aliyun.com/gpu-mem": 8})),
        )
        .is("no-room", "no card has 8192 MiB"),
        beside(
            "tencent-room",
            vec![pod("holder", gpushare(12288))],
            subject(json!({"tencent.com/vcuda-core": 30, "tencent.com/vcuda-memory": 32})),
        )
        .is("no-room", "no card has 8192 MiB"),
    ]
}

fn of_requests() -> Vec<Case> {
    vec![
        alone(
            "unit",
            subject(json!({"gpushare.io/gpu": 1, "gpushare.io/gpu-mem": "4Gi"})),
        )
        .is("invalid-request", "the unit is MiB"),
        alone("no-count", subject(json!({"gpushare.io/gpu-mem": 1024})))
            .is("invalid-request", "is missing"),
        alone(
            "dialects",
            subject(and(gpushare(1024), "aliyun.com/gpu-mem", 1)),
        )
        .is("invalid-request", "must not be combined with"),
        alone(
            "no-policy",
            annotated(subject(gpushare(1024)), "gpushare.io/policy", "nicest"),
        )
        .is("invalid-request", "is not a policy"),
    ]
}
