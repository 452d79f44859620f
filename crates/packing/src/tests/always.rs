//! Properties that hold for every cluster, request and policy.

use proptest::prelude::*;

use super::super::policy::ALL;
use super::*;

const MODELS: [&str; 3] = ["A", "B", "C"];
const SIZES: [(u64, u64); 3] = [(16_000, 100), (24_576, 100), (80_000, 200)];

type NodePlan = (i64, i64, Vec<usize>);

fn nodes() -> impl Strategy<Value = Vec<NodePlan>> {
    let node = (
        0_i64..40,
        0_i64..40,
        prop::collection::vec(0_usize..9, 0..6),
    );
    prop::collection::vec(node, 1..7)
}

#[derive(Clone, Debug)]
enum Event {
    Arrive(Shape, u8),
    Leave(prop::sample::Index),
}

fn shape() -> impl Strategy<Value = Shape> {
    let want = prop_oneof![
        Just(Want::Whole),
        (0_u64..20_000, 0_u64..120).prop_map(|(memory, core)| Want::share(amounts(memory, core))),
        prop::sample::select(vec![25, 33, 50, 100])
            .prop_map(|part| Want::share(amounts(160 * part, part))),
    ];
    (0_i64..20, 0_i64..20, 0_u32..4, want).prop_map(|(cpu, memory, cards, want)| Shape {
        cpu,
        memory,
        cards,
        want,
        pools: PoolSet::ANY,
    })
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (shape(), 0_u8..8).prop_map(|(shape, models)| Event::Arrive(shape, models)),
        1 => any::<prop::sample::Index>().prop_map(Event::Leave),
    ];
    prop::collection::vec(event, 1..120)
}

fn build(policy: Policy, nodes: &[NodePlan], order: &[usize]) -> Fleet {
    let mut fleet = Fleet::new(policy);
    // Assign the pool ids in a fixed order, whatever the order of nodes.
    for model in MODELS {
        for size in SIZES {
            fleet
                .pools_mut()
                .intern(model, amounts(size.0, size.1))
                .unwrap();
        }
    }
    for index in order {
        let (cpu, memory, cards) = &nodes[*index];
        let cards = cards.iter().map(|kind| {
            let size = SIZES[kind % 3];
            let size = amounts(size.0, size.1);
            let pool = fleet.pools_mut().intern(MODELS[kind / 3], size).unwrap();
            CardRoom::new(pool, size, size)
        });
        let space = Space::new(*cpu, *memory, cards.collect()).unwrap();
        fleet.set(&NodeName::new(format!("n{index}")), space);
    }
    fleet
}

/// Each bit chooses a model; no bits choose all models.
fn picky(fleet: &Fleet, shape: &Shape, models: u8) -> Shape {
    let chosen = |model: &str| {
        let place = MODELS.iter().position(|known| *known == model).unwrap();
        models == 0 || models >> place & 1 == 1
    };
    Shape {
        pools: fleet.pools().matching(|pool| chosen(&pool.model)),
        ..*shape
    }
}

/// Checks that no node is overcommitted, counting independently of the fleet.
fn never_over(nodes: &[NodePlan], placed: &[(String, Vec<usize>, Shape)]) {
    for (index, (cpu, memory, cards)) in nodes.iter().enumerate() {
        let here: Vec<_> = placed
            .iter()
            .filter(|(node, _, _)| *node == format!("n{index}"))
            .collect();
        assert!(here.iter().map(|(_, _, shape)| shape.cpu).sum::<i64>() <= *cpu);
        assert!(here.iter().map(|(_, _, shape)| shape.memory).sum::<i64>() <= *memory);
        for (card, kind) in cards.iter().enumerate() {
            let size = SIZES[kind % 3];
            let (mut used, mut owners, mut exclusive) = ((0, 0), 0, false);
            for (_, _, shape) in here.iter().filter(|(_, cards, _)| cards.contains(&card)) {
                owners += 1;
                match shape.want {
                    Want::Whole => exclusive = true,
                    Want::Share(part) => {
                        let amounts = &part.amounts;
                        used = (used.0 + amounts.get(0), used.1 + amounts.get(1));
                        // A share of zero does not count as an owner.
                        owners -= u32::from(*amounts == Amounts::ZERO);
                    }
                }
            }
            assert!(used.0 <= size.0 && used.1 <= size.1);
            assert!(!exclusive || owners == 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_card_is_ever_over_its_size_and_none_is_refused_that_fits(
        nodes in nodes(), events in events(), policy in prop::sample::select(ALL.to_vec()),
    ) {
        let order: Vec<usize> = (0..nodes.len()).collect();
        let mut fleet = build(policy, &nodes, &order);
        let mut placed: Vec<(String, Vec<usize>, Shape)> = Vec::new();
        let mut picks: Vec<(Pick, Shape)> = Vec::new();
        for event in events {
            match event {
                Event::Arrive(shape, models) => {
                    let shape = picky(&fleet, &shape, models);
                    fleet.observe(&shape);
                    let fits = (0..fleet.len()).any(|node| fleet.space(node).unwrap().fits(&shape));
                    let pick = fleet.choose(&shape);
                    prop_assert_eq!(pick.is_some(), fits);
                    if let Some(pick) = pick {
                        prop_assert!(fleet.take(pick, &shape));
                        let name = fleet.name(pick.node).unwrap().to_string();
                        placed.push((name, pick.cards.iter().collect(), shape));
                        picks.push((pick, shape));
                    }
                }
                Event::Leave(index) if !picks.is_empty() => {
                    let index = index.index(picks.len());
                    let (pick, shape) = picks.swap_remove(index);
                    placed.swap_remove(index);
                    fleet.give(pick, &shape);
                    fleet.observe_end(&shape);
                }
                Event::Leave(_) => {}
            }
            never_over(&nodes, &placed);
        }
        for (pick, shape) in picks {
            fleet.give(pick, &shape);
        }
        let fresh = build(policy, &nodes, &order);
        for node in 0..fleet.len() {
            prop_assert_eq!(fleet.space(node), fresh.space(node));
        }
    }

    #[test]
    fn the_order_in_which_nodes_come_decides_nothing(
        nodes in nodes(), events in events(), policy in prop::sample::select(ALL.to_vec()),
        shuffle in any::<prop::sample::Index>(),
    ) {
        let order: Vec<usize> = (0..nodes.len()).collect();
        let mut turned = order.clone();
        turned.rotate_left(shuffle.index(nodes.len()));
        turned.reverse();
        let mut one = build(policy, &nodes, &order);
        let mut other = build(policy, &nodes, &turned);
        for event in events {
            if let Event::Arrive(shape, models) = event {
                let shape = picky(&one, &shape, models);
                one.observe(&shape);
                other.observe(&shape);
                let pick = one.choose(&shape);
                prop_assert_eq!(pick, other.choose(&shape));
                prop_assert_eq!(pick, other.choose_among(&shape, turned.iter().copied()));
                if let Some(pick) = pick {
                    one.take(pick, &shape);
                    other.take(pick, &shape);
                }
            }
        }
    }

    #[test]
    fn ranks_are_a_total_order_headed_by_the_choice(
        nodes in nodes(), events in events(), policy in prop::sample::select(ALL.to_vec()),
    ) {
        let order: Vec<usize> = (0..nodes.len()).collect();
        let mut fleet = build(policy, &nodes, &order);
        for event in events {
            if let Event::Arrive(shape, models) = event {
                let shape = picky(&fleet, &shape, models);
                fleet.observe(&shape);
                let ranking = fleet.rank(&shape, 0..fleet.len());
                let first = ranking.first().map(|(_, pick)| *pick);
                prop_assert_eq!(first, fleet.choose(&shape));
                prop_assert!(ranking.is_sorted_by(|a, b| a < b));
                let fitting = (0..fleet.len()).filter(|node| fleet.space(*node).unwrap().fits(&shape));
                prop_assert_eq!(fitting.count(), ranking.len());
                if let Some(pick) = first {
                    prop_assert_eq!(fleet.explain(pick, &shape).is_empty(), policy.criteria.is_empty());
                    fleet.take(pick, &shape);
                }
            }
        }
    }
}
