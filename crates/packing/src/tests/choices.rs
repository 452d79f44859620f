//! Small clusters: which placement each policy takes.

use gpushare_core::gpu;

use super::super::policy::{BEST_FIT, BINPACK, FIRST_FIT, FOR_PODS, LEARNED, SPREAD};
use super::*;

fn check(policy: Policy, nodes: &[(&str, i64, &[Card])], shape: &Shape, expected: &str) {
    let fleet = fleet(policy, nodes);
    assert_eq!(chosen(&fleet, shape), expected, "{}", policy.name);
}

#[test]
fn each_policy_takes_its_own_node_and_card() {
    let nodes: [(&str, i64, &[Card]); 3] = [
        ("a", 8_000, &[card(90), card(60), card(100)]),
        ("b", 8_000, &[card(100), card(50)]),
        ("c", 8_000, &[card(100), card(100), card(100)]),
    ];
    for (policy, expected) in [
        (FIRST_FIT, "a:0"),
        (BINPACK, "a:1"),
        (BEST_FIT, "b:1"),
        (SPREAD, "c:0"),
        // Nothing is learnt yet, so it chooses like best fit.
        (LEARNED, "b:1"),
    ] {
        check(policy, &nodes, &percent(40), expected);
    }
}

#[test]
fn ties_go_to_the_first_node_by_name_and_its_lowest_card() {
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("b", 8_000, &[card(100), card(100)]),
        ("a", 8_000, &[card(100), card(100)]),
    ];
    for policy in super::super::policy::ALL {
        check(policy, &nodes, &percent(40), "a:0");
        check(policy, &nodes, &whole(2), "a:0,1");
    }
}

#[test]
fn every_dimension_must_fit() {
    let free = |memory, core| Card("T4", (16_000, 100), (memory, core));
    let nodes: [(&str, i64, &[Card]); 3] = [
        ("memory", 8_000, &[free(16_000, 9)]),
        ("core", 8_000, &[free(7_999, 100)]),
        ("both", 8_000, &[free(8_000, 10)]),
    ];
    check(FIRST_FIT, &nodes, &share(1, 8_000, 10), "both:0");
    check(FIRST_FIT, &nodes, &share(1, 8_001, 10), "nowhere");
    check(FIRST_FIT, &nodes, &share(1, 16_000, 5), "memory:0");
}

#[test]
fn cards_of_different_size_share_a_node() {
    let nodes: [(&str, i64, &[Card]); 1] = [(
        "mixed",
        8_000,
        &[
            Card("A100", (80_000, 100), (80_000, 100)),
            Card("T4", (16_000, 100), (16_000, 100)),
        ],
    )];
    check(BEST_FIT, &nodes, &share(1, 20_000, 10), "mixed:0");
    // 12,000 MiB leave a quarter of the small card, and nearly all of the large one.
    check(BEST_FIT, &nodes, &share(1, 12_000, 10), "mixed:1");
    check(SPREAD, &nodes, &share(1, 12_000, 10), "mixed:0");
    check(BEST_FIT, &nodes, &whole(2), "mixed:0,1");
    check(BEST_FIT, &nodes, &share(2, 16_000, 10), "mixed:0,1");
    check(BEST_FIT, &nodes, &share(2, 16_001, 10), "nowhere");
}

#[test]
fn shares_of_several_cards_take_the_tightest_that_fit() {
    let cards = [card(100), card(50), card(30), card(60), card(55)];
    let nodes: [(&str, i64, &[Card]); 1] = [("a", 8_000, &cards)];
    check(BEST_FIT, &nodes, &share(3, 8_000, 50), "a:1,3,4");
    check(SPREAD, &nodes, &share(3, 8_000, 50), "a:0,3,4");
    check(BEST_FIT, &nodes, &share(4, 8_000, 50), "a:0,1,3,4");
    check(BEST_FIT, &nodes, &share(5, 8_000, 50), "nowhere");
}

#[test]
fn whole_cards_are_untouched_ones() {
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 8_000, &[card(99), card(100), card(100)]),
        ("b", 8_000, &[card(100), card(100), card(100)]),
    ];
    check(FIRST_FIT, &nodes, &whole(2), "a:1,2");
    check(FIRST_FIT, &nodes, &whole(3), "b:0,1,2");
    check(FIRST_FIT, &nodes, &whole(4), "nowhere");
}

#[test]
fn a_card_with_nothing_free_takes_nobody() {
    let nodes: [(&str, i64, &[Card]); 1] = [("a", 8_000, &[card(0), card(1)])];
    check(FIRST_FIT, &nodes, &percent(1), "a:1");
    check(FIRST_FIT, &nodes, &whole(1), "nowhere");
}

#[test]
fn cpu_and_memory_of_the_node_must_fit() {
    let nodes: [(&str, i64, &[Card]); 2] = [("a", 999, &[card(100)]), ("b", 1_000, &[card(100)])];
    check(FIRST_FIT, &nodes, &percent(1), "b:0");
    let thirsty = Shape {
        memory: 1_000_001,
        ..percent(1)
    };
    check(FIRST_FIT, &nodes, &thirsty, "nowhere");
    check(FIRST_FIT, &nodes, &Shape::without_cards(999, 0), "a:");
}

#[test]
fn models_are_chosen_and_excluded_by_pool() {
    let other = |model| Card(model, (16_000, 100), (16_000, 100));
    let nodes: [(&str, i64, &[Card]); 3] = [
        ("a", 8_000, &[other("P100")]),
        ("b", 8_000, &[card(100)]),
        ("c", 8_000, &[other("P100"), card(100)]),
    ];
    let fleet = fleet(FIRST_FIT, &nodes);
    let only = |model: &str| Shape {
        pools: fleet.pools().matching(|pool| *pool.model == *model),
        ..percent(10)
    };
    assert_eq!(chosen(&fleet, &only("T4")), "b:0");
    assert_eq!(chosen(&fleet, &only("V100")), "nowhere");
    let t4_of_c = fleet.choose_among(&only("T4"), [2]).unwrap();
    assert_eq!(described(&fleet, t4_of_c), "c:1");
}

#[test]
fn a_node_can_change_and_go() {
    let mut fleet = fleet(
        FIRST_FIT,
        &[("a", 8_000, &[card(10)]), ("b", 8_000, &[card(100)])],
    );
    assert_eq!(chosen(&fleet, &percent(20)), "b:0");
    let space = fleet.space(1).unwrap().clone();
    fleet.set(&"a".into(), space);
    assert_eq!(chosen(&fleet, &percent(20)), "a:0");
    fleet.remove("a");
    fleet.remove("unknown");
    assert_eq!(chosen(&fleet, &percent(20)), "b:0");
    assert_eq!(fleet.len(), 1);
}

#[test]
fn a_placement_that_does_not_fit_is_not_booked() {
    let mut fleet = fleet(FIRST_FIT, &[("a", 8_000, &[card(50), card(100)])]);
    let pick = |cards: &[usize]| Pick {
        node: 0,
        cards: cards.iter().copied().collect(),
    };
    let before = fleet.space(0).cloned();
    for (cards, shape) in [
        (&[0][..], percent(51)),
        (&[2], percent(1)),
        (&[0, 1], percent(1)),
        (&[], percent(1)),
        (&[0, 1], whole(2)),
    ] {
        assert!(!fleet.take(pick(cards), &shape), "{cards:?}");
    }
    assert_eq!(fleet.space(0).cloned(), before);
    assert!(fleet.take(pick(&[0]), &percent(50)));
}

#[test]
fn a_node_of_65_cards_is_refused() {
    let mut fleet = Fleet::new(FIRST_FIT);
    let size = amounts(1, 1);
    let pool = fleet.pools_mut().intern("A", size).unwrap();
    let cards = |count| vec![CardRoom::new(pool, size, size); count];
    let error = Space::new(0, 0, cards(65)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the node has 65 cards; gpushare counts up to 64 a node"
    );
    let space = Space::new(8_000, 8_000, cards(64)).unwrap();
    fleet.set(&"a".into(), space);
    assert_eq!(fleet.choose(&whole(64)).unwrap().cards.len(), 64);
    assert_eq!(fleet.choose(&whole(65)), None);
}

#[test]
fn rounding_does_not_part_equal_pods() {
    let size = (16_384, 100);
    for used in 1..5 {
        let begun = Card("T4", size, (16_384 - used * 3_072, 100));
        let nodes: [(&str, i64, &[Card]); 1] = [("a", 8_000, &[Card("T4", size, size), begun])];
        for policy in [LEARNED, BEST_FIT, BINPACK] {
            check(policy, &nodes, &share(1, 3_072, 0), "a:1");
        }
    }
}

#[test]
fn the_policies_that_a_pod_may_name_are_those_that_need_no_lessons() {
    assert_eq!(FOR_PODS.map(|policy| policy.name), gpu::POLICIES);
}
