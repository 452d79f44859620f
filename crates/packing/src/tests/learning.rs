//! How the learned policy uses the requests it saw.

use super::super::policy::{FGD, LEARNED};
use super::*;

/// A fleet that saw 512 requests for these shapes, in the given proportions.
fn taught(nodes: &[(&str, i64, &[Card])], mix: &[(Shape, usize)]) -> Fleet {
    let mut fleet = fleet(LEARNED, nodes);
    teach(&mut fleet, mix, 512);
    fleet
}

fn teach(fleet: &mut Fleet, mix: &[(Shape, usize)], requests: usize) {
    let parts = mix.iter().flat_map(|(shape, times)| vec![shape; *times]);
    for shape in parts.cycle().take(requests) {
        fleet.observe(shape);
    }
}

/// Ends as many pods as arrived: a cluster in which no pod stays.
fn let_all_leave(fleet: &mut Fleet, shape: &Shape, times: usize) {
    for _ in 0..times {
        fleet.observe_end(shape);
    }
}

/// A node with one card of a rare model, one with three others, and a request that only the rare card can serve.
fn with_a_rare_model() -> (Fleet, Shape) {
    let rare = Card("rare", (16_000, 100), (16_000, 100));
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[rare]),
        ("b", 64_000, &[card(100), card(100), card(100)]),
    ];
    let fleet = fleet(LEARNED, &nodes);
    let only_rare = Shape {
        pools: fleet.pools().matching(|pool| *pool.model == *"rare"),
        ..whole(1)
    };
    (fleet, only_rare)
}

#[test]
fn a_cut_goes_where_the_rest_is_of_use() {
    // 60 and 40 fill a card. Best fit would put the 40 into the gap of 50 and waste 10.
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[card(50), card(100)]),
        ("b", 64_000, &[card(100)]),
    ];
    let fleet = taught(&nodes, &[(percent(60), 1), (percent(40), 1)]);
    assert_eq!(chosen(&fleet, &percent(60)), "b:0");
    let explained = fleet.explain(fleet.choose(&percent(60)).unwrap(), &percent(60));
    assert_eq!(explained[0].name, "cut waste");
    assert_eq!(explained[0].value, 0);
}

#[test]
fn a_whole_node_is_kept_for_pods_that_need_one() {
    let mut in_use = [card(100); 8];
    in_use[0] = card(0);
    let nodes: [(&str, i64, &[Card]); 2] = [("a", 64_000, &[card(100); 8]), ("b", 64_000, &in_use)];
    let fleet = taught(&nodes, &[(whole(1), 9), (whole(8), 1)]);
    assert_eq!(chosen(&fleet, &whole(1)), "b:1");
    assert_eq!(chosen(&fleet, &whole(8)), "a:0,1,2,3,4,5,6,7");
}

#[test]
fn a_pod_without_cards_goes_where_cpu_is_in_surplus() {
    // Each card needs 8 cores; node b has 8 more than its one card needs, node a has none to spare.
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 16_000, &[card(100), card(100)]),
        ("b", 16_000, &[card(100), card(0)]),
    ];
    let needs_eight = Shape {
        cpu: 8_000,
        ..whole(1)
    };
    let fleet = taught(&nodes, &[(needs_eight, 1)]);
    let idle = Shape::without_cards(8_000, 1_000);
    assert_eq!(chosen(&fleet, &idle), "b:");
}

#[test]
fn a_model_that_others_depend_on_is_left_to_them() {
    let (mut fleet, only_rare) = with_a_rare_model();
    let anywhere = whole(1);
    assert_eq!(chosen(&fleet, &anywhere), "a:0");
    teach(&mut fleet, &[(anywhere, 2), (only_rare, 2)], 512);
    assert_eq!(chosen(&fleet, &anywhere), "b:0");
    assert_eq!(chosen(&fleet, &only_rare), "a:0");
}

#[test]
fn pods_that_run_at_a_start_teach_as_those_that_come_one_by_one() {
    let (mut fleet, only_rare) = with_a_rare_model();
    let mix = [whole(1), only_rare];
    fleet.observe_all(mix.into_iter().take(1));
    assert_eq!(chosen(&fleet, &whole(1)), "a:0", "one pod is no mix");
    fleet.observe_all(mix.into_iter().cycle().take(500));
    assert_eq!(chosen(&fleet, &whole(1)), "b:0");
    // Later requests still count as usual.
    teach(&mut fleet, &[(whole(1), 1)], 20_000);
    assert_eq!(chosen(&fleet, &whole(1)), "a:0");
}

#[test]
fn a_size_that_only_large_cards_can_serve_makes_them_scarce() {
    let large = Card("A100", (80_000, 100), (80_000, 100));
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[large]),
        ("b", 64_000, &[card(100), card(100)]),
    ];
    let fleet = taught(
        &nodes,
        &[(share(1, 60_000, 50), 3), (share(1, 8_000, 50), 1)],
    );
    assert_eq!(chosen(&fleet, &share(1, 8_000, 50)), "b:0");
    assert_eq!(chosen(&fleet, &share(1, 60_000, 50)), "a:0");
}

#[test]
fn pods_that_want_the_other_dimension_share_a_card() {
    // One pod fills the memory and leaves most of the compute, the other does the reverse.
    let by_memory = share(1, 14_000, 10);
    let by_core = share(1, 1_600, 85);
    let half_used = Card("T4", (16_000, 100), (2_000, 90));
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[card(100), half_used]),
        ("b", 64_000, &[card(87)]),
    ];
    let fleet = taught(&nodes, &[(by_memory, 1), (by_core, 1)]);
    assert_eq!(chosen(&fleet, &by_core), "a:1");
}

#[test]
fn old_demand_is_forgotten() {
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[card(50), card(100)]),
        ("b", 64_000, &[card(100)]),
    ];
    // While pods ask for halves, a gap of 50 is worth half a card and should not be cut.
    let mut fleet = taught(&nodes, &[(percent(50), 1)]);
    let waste = |fleet: &Fleet| {
        let pick = Pick {
            node: 0,
            cards: [0].into_iter().collect(),
        };
        fleet.explain(pick, &percent(30))[0].value
    };
    assert_eq!(waste(&fleet), 500_000);
    // With pieces of 30 %, the gap is worth no more than the one piece that is cut from it.
    teach(&mut fleet, &[(percent(30), 1)], 16 * 1_024);
    assert!(waste(&fleet) < 10_000, "{}", waste(&fleet));
}

#[test]
fn where_nobody_stays_nodes_in_use_come_before_empty_ones() {
    // Each card needs 8 cores. The busy node lacks them, so it is avoided while pods stay.
    let nodes: [(&str, i64, &[Card]); 2] = [
        (
            "busy",
            9_000,
            &[
                card(0),
                card(0),
                card(0),
                card(0),
                card(0),
                card(100),
                card(100),
                card(100),
            ],
        ),
        ("empty", 64_000, &[card(100); 8]),
    ];
    let thirsty = Shape {
        cpu: 8_000,
        ..whole(1)
    };
    let several = Shape {
        cpu: 16_000,
        ..whole(2)
    };
    let mut fleet = taught(&nodes, &[(thirsty, 3), (several, 1)]);
    assert_eq!(chosen(&fleet, &thirsty), "empty:0");
    let_all_leave(&mut fleet, &thirsty, 640);
    assert_eq!(chosen(&fleet, &thirsty), "busy:5");
}

#[test]
fn the_parts_of_the_cost_add_up_to_it() {
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 30_000, &[card(50), card(100)]),
        ("b", 64_000, &[card(100); 4]),
    ];
    let mut fleet = taught(&nodes, &[(percent(60), 3), (whole(1), 2), (whole(4), 1)]);
    let_all_leave(&mut fleet, &whole(1), 100);
    for shape in [percent(40), whole(1), Shape::without_cards(5_000, 5)] {
        for (_, pick) in fleet.rank(&shape, 0..fleet.len()) {
            let terms = fleet.explain(pick, &shape);
            let value = |wanted: &str| terms.iter().find(|term| term.name == wanted).unwrap().value;
            let parts: i64 = [
                "usable room lost beyond the pod's own",
                "room stranded without CPU or memory",
                "scarcity of the model",
                "use of an emptier node",
            ]
            .map(value)
            .iter()
            .sum();
            let cost = value("cost to the cluster");
            assert!((cost - parts).abs() <= 4, "{terms:?}");
        }
    }
}

#[test]
fn fragmentation_is_learnt_from_requests_when_it_is_not_given() {
    let nodes: [(&str, i64, &[Card]); 2] = [
        ("a", 64_000, &[card(100), card(100)]),
        ("b", 64_000, &[card(100), card(40)]),
    ];
    let mut fleet = fleet(FGD, &nodes);
    assert_eq!(chosen(&fleet, &percent(40)), "a:0");
    teach(&mut fleet, &[(whole(1), 2), (percent(40), 1)], 512);
    assert_eq!(chosen(&fleet, &percent(40)), "b:1");
}
