//! Properties that hold for any events in any order.

use std::collections::BTreeMap;

use crate::common::{self, Books, ask, bound, node, pod};
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::ledger::{BoundPod, Ledger};
use gpushare_core::{NodeName, PodUid};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        pod: usize,
        node: usize,
        memory: u64,
    },
    Settle(usize),
    Doubt(usize),
    Confirm(usize),
    Release(usize),
    Relist,
    LoseNode(usize),
    FindNode(usize),
}

const PODS: usize = 12;
const SIZES: [&[u64]; 3] = [&[8, 8], &[16], &[4, 8, 12]];

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..PODS;
    prop_oneof![
        6 => (pod.clone(), 0..SIZES.len(), 1..10_u64)
            .prop_map(|(pod, node, memory)| Step::Reserve { pod, node, memory }),
        2 => pod.clone().prop_map(Step::Settle),
        1 => pod.clone().prop_map(Step::Doubt),
        3 => pod.clone().prop_map(Step::Confirm),
        3 => pod.prop_map(Step::Release),
        1 => Just(Step::Relist),
        1 => (0..SIZES.len()).prop_map(Step::LoseNode),
        2 => (0..SIZES.len()).prop_map(Step::FindNode),
    ]
}

fn name(number: usize) -> NodeName {
    node(&format!("n{number}"))
}

fn cards(number: usize) -> Vec<gpushare_core::Card> {
    common::cards(SIZES[number])
}

/// A ledger together with the API server's view: which pods are bound there.
struct World {
    ledger: Ledger,
    asked: BTreeMap<PodUid, u64>,
    api: BTreeMap<PodUid, BoundPod>,
}

impl World {
    fn new() -> Self {
        let mut ledger = Ledger::new(gpu::classes());
        for number in 0..SIZES.len() {
            ledger.set_node(&name(number), cards(number));
        }
        Self {
            ledger,
            asked: BTreeMap::new(),
            api: BTreeMap::new(),
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Reserve {
                pod: number,
                node,
                memory,
            } => {
                let uid = pod(*number);
                let memory = *self.asked.entry(uid.clone()).or_insert(*memory);
                let _ = self.ledger.reserve(&uid, &name(*node), &ask(memory));
            }
            Step::Settle(number) => self.ledger.settle(&pod(*number)),
            Step::Doubt(number) => self.ledger.doubt(&pod(*number)),
            Step::Confirm(number) => {
                let uid = pod(*number);
                if self.ledger.booking(uid.as_str()).is_some() {
                    let seen = bound(&self.ledger, &uid, &ask(self.asked[&uid]));
                    self.api.insert(uid, seen.clone());
                    self.ledger.confirm(seen);
                }
            }
            Step::Release(number) => {
                self.api.remove(&pod(*number));
                self.ledger.release(&pod(*number));
                self.asked.remove(&pod(*number));
            }
            Step::Relist => {
                self.ledger.rebuild(self.api.values().cloned().collect());
            }
            Step::LoseNode(number) => self.ledger.remove_node(name(*number).as_str()),
            Step::FindNode(number) => self.ledger.set_node(&name(*number), cards(*number)),
        }
    }
}

proptest! {
    #[test]
    fn no_card_is_ever_booked_past_its_size(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
            for node in world.ledger.nodes() {
                for card in node.cards() {
                    prop_assert!(card.used.fits_in(&card.card.capacity), "{step:?}: {card:?}");
                    let sum: u64 = card.pods().map(|(_, amounts)| amounts.get(MEMORY)).sum();
                    prop_assert_eq!(sum, card.used.get(MEMORY));
                }
            }
        }
    }

    #[test]
    fn whoever_reads_the_changes_misses_none(steps in prop::collection::vec(step(), 1..80)) {
        let rooms = |ledger: &Ledger, number: usize| {
            let rooms = ledger.node(name(number).as_str()).map(|node| node.rooms().to_vec());
            format!("{:?}", rooms.unwrap_or_default())
        };
        let mut world = World::new();
        for step in &steps {
            let read = world.ledger.bookmark();
            let before: Vec<String> = (0..SIZES.len()).map(|node| rooms(&world.ledger, node)).collect();
            world.apply(step);
            let changed = world.ledger.changed_since(read).expect("few changes");
            let changed: Vec<NodeName> = changed.cloned().collect();
            for (number, before) in before.iter().enumerate() {
                let same = *before == rooms(&world.ledger, number);
                prop_assert!(same || changed.contains(&name(number)), "{step:?}");
            }
        }
    }

    #[test]
    fn releasing_every_pod_returns_to_zero(steps in prop::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
        }
        for number in 0..PODS {
            world.ledger.release(&pod(number));
        }
        prop_assert!(world.ledger.is_empty());
        for number in 0..SIZES.len() {
            world.ledger.set_node(&name(number), cards(number));
            prop_assert!(world.ledger.used(name(number).as_str()).iter().all(|used| *used == 0));
        }
    }

    #[test]
    fn a_rebuild_from_the_api_server_alone_gives_the_same_books(
        steps in prop::collection::vec(step(), 1..80),
        rotate in 0..PODS,
    ) {
        let mut world = World::new();
        for step in &steps {
            world.apply(step);
        }
        // A crash loses everything that the API server does not show.
        let unconfirmed: Vec<PodUid> =
            (0..PODS).map(pod).filter(|uid| !world.api.contains_key(uid)).collect();
        for uid in unconfirmed {
            world.ledger.release(&uid);
        }
        let mut listed: Vec<BoundPod> = world.api.values().cloned().collect();
        let turns = rotate % listed.len().max(1);
        listed.rotate_left(turns);
        let mut fresh = World::new().ledger;
        prop_assert_eq!(fresh.rebuild(listed), vec![]);
        for number in 0..SIZES.len() {
            world.ledger.set_node(&name(number), cards(number));
            let name = name(number);
            prop_assert_eq!(fresh.used(name.as_str()), world.ledger.used(name.as_str()));
        }
    }

    #[test]
    fn the_order_in_which_cards_are_listed_changes_no_decision(
        sizes in prop::collection::vec(1..10_u64, 1..8),
        asks in prop::collection::vec(1..10_u64, 1..12),
        seed in any::<prop::sample::Index>(),
    ) {
        let listed = common::cards(&sizes);
        let mut turned = listed.clone();
        turned.rotate_left(seed.index(listed.len()));
        turned.reverse();
        let (mut a, mut b) = (Ledger::new(gpu::classes()), Ledger::new(gpu::classes()));
        a.set_node(&node("n"), listed);
        b.set_node(&node("n"), turned);
        for (number, memory) in asks.iter().enumerate() {
            let one = a.reserve_for(number, "n", *memory);
            prop_assert_eq!(one, b.reserve_for(number, "n", *memory));
        }
    }
}
