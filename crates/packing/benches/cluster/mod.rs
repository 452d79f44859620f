//! The cluster on which decisions are measured: 5,000 nodes of 8 cards, about four fifths of them
//! taken, no two nodes alike, and a learnt mix of requests.

use fastrand::Rng;
use gpushare_core::amounts::Amounts;
use gpushare_core::ids::NodeName;
use gpushare_packing::policy::LEARNED;
use gpushare_packing::{CardRoom, Fleet, PoolSet, Shape, Space, Want};

pub(crate) const NODES: usize = 5_000;
const CARDS: usize = 8;
/// Requests between two lessons: the request with this number triggers one.
const LESSON: usize = 512;

/// Models, with the memory of a card in MiB.
const MODELS: [(&str, u64); 3] = [("T4", 16_384), ("A10", 24_576), ("A100", 81_920)];
/// The free percentages that a card may have; most cards are full.
const FREE: [u64; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 10, 25, 50, 75, 100];

/// A quarter of a core up to `cores`, in thousandths of a core.
fn cpu(random: &mut Rng, cores: i64) -> i64 {
    random.i64(1..=cores * 4) * 250
}

fn one_of<T: Copy>(random: &mut Rng, items: &[T]) -> T {
    items[random.usize(..items.len())]
}

/// The fleet just before its next lesson.
pub(crate) fn fleet() -> Fleet {
    // The same in every run.
    let mut random = Rng::with_seed(7);
    let mut fleet = Fleet::new(LEARNED);
    for index in 0..NODES {
        let (model, memory) = one_of(&mut random, &MODELS);
        let size = Amounts::of(0, memory).with(1, 100);
        let pool = fleet.pools_mut().intern(model, size).expect("few models");
        let cards = (0..CARDS).map(|_| {
            let free = one_of(&mut random, &FREE);
            let free = Amounts::of(0, memory * free / 100).with(1, free);
            CardRoom::new(pool, size, free)
        });
        // Every tenth node is empty, so that a whole one can be found.
        let cards = if index % 10 == 0 {
            vec![CardRoom::new(pool, size, size); CARDS]
        } else {
            cards.collect()
        };
        let space = Space::new(64_000 + cpu(&mut random, 32), 262_144, cards).expect("few cards");
        fleet.set(&NodeName::new(format!("node-{index:05}")), space);
    }
    for _ in 1..LESSON {
        fleet.observe(&request(&mut random));
    }
    fleet
}

/// The fleet just after its lesson, as it is for most decisions.
pub(crate) fn taught() -> Fleet {
    let mut fleet = fleet();
    fleet.observe(&share());
    fleet
}

fn request(random: &mut Rng) -> Shape {
    let cpu = cpu(random, 8);
    match random.u8(..14) {
        0..6 => Shape { cpu, ..whole(1) },
        6 => Shape { cpu, ..whole(8) },
        _ => {
            let part = one_of(random, &[5, 10, 25, 40, 50, 60, 75]);
            let amounts = Amounts::of(0, 160 * part).with(1, part);
            Shape {
                cpu,
                want: Want::share(amounts),
                ..whole(1)
            }
        }
    }
}

/// 4 GiB and a quarter of a card's compute.
pub(crate) fn share() -> Shape {
    Shape {
        want: Want::share(Amounts::of(0, 4_096).with(1, 25)),
        ..whole(1)
    }
}

pub(crate) fn whole(cards: u32) -> Shape {
    Shape {
        cpu: 4_000,
        memory: 8_192,
        cards,
        want: Want::Whole,
        pools: PoolSet::ANY,
    }
}

pub(crate) fn without_cards() -> Shape {
    Shape::without_cards(4_000, 8_192)
}
