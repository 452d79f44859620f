//! Every shape of request on a real kubelet: several cards, several containers, whole cards, choices.

use std::collections::{BTreeMap, BTreeSet};

use e2e::manifest::{RUN, aliyun, and, annotated, container, gpushare, pod};
use e2e::world::{recorded_card, recorded_cards};
use e2e::{Kubectl, Setup, World};
use gpushare_core::CardId;
use serde_json::{Value, json};

/// Prints its environment and ends.
const SAY: &str = "env";

fn seen(env: &BTreeMap<String, String>) -> (String, &str) {
    let cards = env.get("NVIDIA_VISIBLE_DEVICES").cloned();
    let memory = env.get("GPUSHARE_MEMORY_MIB").map(String::as_str);
    (cards.unwrap_or_default(), memory.unwrap_or_default())
}

fn whole(cards: u64) -> Value {
    json!({"gpushare.io/gpu": cards})
}

fn several(cards: u64, mib: u64) -> Value {
    and(whole(cards), "gpushare.io/gpu-mem", mib)
}

fn ids(cards: &[CardId]) -> String {
    let cards: Vec<&str> = cards.iter().map(CardId::as_str).collect();
    cards.join(",")
}

#[test]
fn one_pod_has_three_gib_on_each_of_four_cards() {
    let world = World::start(&[8192; 4]);
    let half = and(several(4, 3072), "gpushare.io/gpu-core", 50);
    let cards = recorded_cards(&world.runs(&pod("four", half))).remove(0);
    let different: BTreeSet<&CardId> = cards.iter().collect();
    assert_eq!(different.len(), 4);
    let env = world.env_inside("four");
    assert_eq!(seen(&env), (ids(&cards), "3072"));
    assert_eq!(env["GPUSHARE_CORE_PERCENT"], "50");
    assert_eq!(world.booked(), [3; 4]);

    world.apply(&pod("too-many", several(4, 6144)));
    world.wait_event("too-many", "gpushare:");
    assert_eq!(world.booked(), [3; 4]);
    world.runs(&pod("rest", several(4, 5120)));
    assert_eq!(world.booked(), [8; 4]);
}

#[test]
fn two_containers_and_an_init_container_see_each_its_own_share_and_the_peak_is_booked() {
    let world = World::start(&[8192]);
    let mut both = pod("both", gpushare(2048));
    both["spec"]["initContainers"] = json!([container("setup", SAY, gpushare(6144))]);
    let containers = both["spec"]["containers"].as_array_mut().unwrap();
    containers.push(container("d", RUN, gpushare(3072)));
    world.runs(&both);
    let card = world.cards().remove(0);
    for (container, mib) in [("setup", "6144"), ("c", "2048"), ("d", "3072")] {
        let env = world.env_logged_by("both", container);
        assert_eq!(seen(&env), (card.to_string(), mib), "{container}");
    }
    assert_eq!(world.booked(), [6]);

    // Another dialect, in which the scheduler's own totals still have plenty.
    world.apply(&pod("too-much", aliyun(3)));
    world.wait_event("too-much", "the most is 2048");
    world.runs(&pod("beside", aliyun(2)));
    assert_eq!(world.booked(), [8]);
}

#[test]
fn a_native_sidecar_keeps_its_share_beside_init_containers_and_apps() {
    let world = World::start(&[8192]);
    let mut sidecar = container("proxy", RUN, gpushare(1024));
    sidecar["restartPolicy"] = json!("Always");
    let mut helped = pod("helped", gpushare(2048));
    helped["spec"]["initContainers"] = json!([
        container("before", SAY, gpushare(4096)),
        sidecar,
        container("after", SAY, gpushare(4096)),
    ]);
    world.runs(&helped);
    for (container, mib) in [
        ("before", "4096"),
        ("proxy", "1024"),
        ("after", "4096"),
        ("c", "2048"),
    ] {
        let env = world.env_logged_by("helped", container);
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], mib, "{container}");
    }
    for (container, mib) in [("proxy", "1024"), ("c", "2048")] {
        let env = world.env_inside_of("helped", container);
        assert_eq!(env["GPUSHARE_MEMORY_MIB"], mib, "{container}");
    }
    // The sidecar plus the init container after it.
    assert_eq!(world.booked(), [5]);
}

#[test]
fn whole_cards_and_shares_live_on_one_node_and_never_on_one_card() {
    let world = World::start(&[8192, 16384]);
    let shared = recorded_card(&world.runs(&pod("share", gpushare(1024))));
    let alone = recorded_card(&world.runs(&pod("whole", whole(1))));
    assert_ne!(alone, shared);
    let size = world.card_sizes()[&alone].to_string();
    let env = world.env_inside("whole");
    assert_eq!(seen(&env), (alone.to_string(), &*size));
    assert_eq!(env["GPUSHARE_CORE_PERCENT"], "100");

    world.apply(&pod("one-more", whole(1)));
    world.wait_event("one-more", "gpushare:");
    let beside = world.runs(&pod("beside", gpushare(1024)));
    assert_eq!(recorded_card(&beside), shared);

    world.remove("whole");
    world.remove("one-more");
    let next = world.runs(&pod("next", whole(1)));
    assert_eq!(recorded_card(&next), alone);
}

#[test]
fn pods_choose_among_different_cards_of_one_node_by_size_model_and_id() {
    let cards = [
        ("NVIDIA A100-SXM4-40GB", 40_960),
        ("NVIDIA A10", 24_576),
        ("Tesla T4", 16_384),
        ("Tesla T4", 16_384),
    ];
    let world = World::with(Setup::models(&cards));
    let cards = world.cards();
    let either_t4 = [cards[2].clone(), cards[3].clone()];
    let choices = [
        ("size", "", "", 30_000, &cards[..1]),
        ("model", "card-models", "A10", 1024, &cards[1..2]),
        (
            "not-model",
            "exclude-card-models",
            "a10, A100-SXM4",
            1024,
            &either_t4,
        ),
        ("id", "card-ids", cards[3].as_str(), 1024, &cards[3..]),
        (
            "not-id",
            "exclude-card-ids",
            &ids(&cards[1..]),
            1024,
            &cards[..1],
        ),
    ];
    for (name, annotation, value, mib, expected) in choices {
        let mut pod = pod(name, gpushare(mib));
        if !annotation.is_empty() {
            pod = annotated(pod, &format!("gpushare.io/{annotation}"), value);
        }
        world.apply(&pod);
        let found = world.card_of(name);
        assert!(expected.contains(&found), "{name}: {found}");
    }

    let nowhere = pod("nowhere", gpushare(1024));
    world.apply(&annotated(nowhere, "gpushare.io/card-models", "H100"));
    world.wait_event("nowhere", "gpushare:");
    let wrong = pod("wrong", gpushare(1024));
    world.apply(&annotated(wrong, "gpushare.io/policy", "magic"));
    world.wait_event("wrong", "\"magic\" is not a policy; write one of");
}
