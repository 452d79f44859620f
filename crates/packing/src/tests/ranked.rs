//! Kept rankings make the same choice as judging every node, whatever has happened since.

use proptest::prelude::*;

use super::super::Rankings;
use super::super::policy::ALL;
use super::*;

const NODES: usize = 6;

#[derive(Clone, Debug)]
enum Event {
    /// A pod of one of a few shapes asks for one of the nodes in the mask.
    Arrive(usize, u8),
    Leave(prop::sample::Index),
    /// A node is set again with this much of its cards free.
    Redraw(usize, u64),
    Remove(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        8 => (0_usize..12, any::<u8>()).prop_map(|(shape, nodes)| Event::Arrive(shape, nodes)),
        3 => any::<prop::sample::Index>().prop_map(Event::Leave),
        2 => (0..NODES, 0_u64..=4).prop_map(|(node, free)| Event::Redraw(node, free * 25)),
        1 => (0..NODES).prop_map(Event::Remove),
    ];
    prop::collection::vec(event, 1..150)
}

/// More shapes than rankings are kept.
fn shape(number: usize) -> Shape {
    match number {
        0 => whole(1),
        1 => whole(2),
        2 => Shape::without_cards(500, 500),
        n => percent(8 * n as u64),
    }
}

fn draw(fleet: &mut Fleet, node: usize, free: u64) {
    let model = if node.is_multiple_of(2) { "A" } else { "B" };
    let size = amounts(16_000, 100);
    let pool = fleet.pools_mut().intern(model, size).unwrap();
    let cards = [free, 100, 50].map(|free| CardRoom::new(pool, size, amounts(160 * free, free)));
    let space = Space::new(20_000, 100_000, cards.to_vec()).unwrap();
    fleet.set(&NodeName::new(format!("n{node}")), space);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn kept_rankings_choose_as_a_look_at_every_node_does(
        events in events(), policy in prop::sample::select(ALL.to_vec()),
    ) {
        let mut fleet = Fleet::new(policy);
        for node in 0..NODES {
            draw(&mut fleet, node, 100);
        }
        let mut rankings = Rankings::default();
        let mut placed: Vec<(NodeName, Pick, Shape)> = Vec::new();
        for event in events {
            match event {
                Event::Arrive(number, mask) => {
                    let shape = shape(number);
                    fleet.observe(&shape);
                    let wanted = |name: &str| {
                        let number: u32 = name.trim_start_matches('n').parse().unwrap();
                        mask >> number & 1 == 1
                    };
                    let places = (0..fleet.len())
                        .filter(|place| wanted(fleet.name(*place).unwrap().as_str()));
                    let expected = fleet.choose_by(&policy, &shape, places);
                    prop_assert_eq!(rankings.best(&fleet, &policy, &shape, wanted), expected);
                    if let Some(pick) = expected {
                        prop_assert!(fleet.take(pick, &shape));
                        let name = fleet.name(pick.node).unwrap().clone();
                        placed.push((name, pick, shape));
                    }
                }
                Event::Leave(index) if !placed.is_empty() => {
                    let (name, pick, shape) = placed.swap_remove(index.index(placed.len()));
                    // By now the node may have another place or be gone.
                    if let Some(node) = fleet.find(name.as_str()) {
                        fleet.give(Pick { node, ..pick }, &shape);
                        fleet.observe_end(&shape);
                    }
                }
                Event::Leave(_) => {}
                Event::Redraw(node, free) => draw(&mut fleet, node, free),
                Event::Remove(node) => fleet.remove(&format!("n{node}")),
            }
        }
    }
}
