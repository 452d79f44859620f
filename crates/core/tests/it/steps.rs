//! The work for one request is bounded, whatever its pod asks for.

use crate::common::{Books, ask, asks, card, container, ledger, node, pod, share};
use gpushare_core::gpu;
use gpushare_core::preempt::{Guard, Occupant, Rank, Site, VictimChoice, choose};
use gpushare_core::request::{ContainerAsk, MOST_ASKING, PodAsk, Role, Want};
use gpushare_core::{Ledger, PodUid, Steps, Why};

const UNEQUAL: [u64; 8] = [
    16_384, 15_000, 14_000, 13_000, 12_000, 11_000, 10_500, 10_000,
];

/// Containers with 2 to 4 cards each and shares of different sizes: the sum does not tell whether they fit.
fn hostile(containers: usize, seed: u64) -> PodAsk {
    let each = |at: usize| {
        let number = u64::try_from(at).expect("small") + seed;
        let size = 97 + number * 7_919 % 1_301;
        let cards = 2 + u32::try_from(number % 3).expect("small");
        container(&format!("c{at}"), Role::App, cards, share(size))
    };
    asks((0..containers).map(each))
}

/// A request that is just too large for the cards, which only trying can show.
fn knapsack(containers: usize, seed: u64, sum: u64) -> PodAsk {
    let like = hostile(containers, seed);
    let number = u64::try_from(containers).expect("small");
    let each = |(at, ask): (u64, &ContainerAsk)| ContainerAsk {
        cards: 1,
        want: share(sum / number + at * 37 % 101),
        ..ask.clone()
    };
    asks((0..).zip(&*like.containers).map(each))
}

fn filter(books: &Ledger, nodes: &[String], ask: &PodAsk) -> (Vec<Option<Why>>, u64) {
    let steps = Steps::for_request();
    let search = books.search(ask, &steps);
    let uid = pod(0);
    let fit = books.fitting(&uid, &search);
    let said = nodes.iter().map(|name| fit(name).err()).collect();
    (said, steps.taken())
}

#[test]
fn a_filter_of_two_nodes_is_short_however_many_containers_ask() {
    let books = ledger(&[("a", &UNEQUAL), ("b", &UNEQUAL)]);
    let nodes = ["a".to_owned(), "b".to_owned()];
    for containers in [40, 60, 100, 150] {
        let (_, taken) = filter(&books, &nodes, &hostile(containers, 1));
        assert!(taken <= 30_000, "{containers} containers: {taken} steps");
    }
}

/// 5,000 nodes of 8 cards, no two alike.
fn large() -> (Ledger, Vec<String>) {
    let mut books = Ledger::new(gpu::classes());
    let names: Vec<String> = (0..5_000).map(|at| format!("n{at}")).collect();
    for (at, name) in (0_u64..).zip(&names) {
        let size = |card: u32| 8_000 + (at * 131 + u64::from(card) * 977) % 4_001;
        let cards = (0..8).map(|index| card(index, size(index))).collect();
        books.set_node(&node(name), cards);
    }
    (books, names)
}

#[test]
fn the_filter_of_5000_nodes_takes_at_most_ten_times_the_steps_of_an_ordinary_pods() {
    let (books, names) = large();
    let (said, ordinary) = filter(&books, &names, &ask(4_000));
    assert!(said.iter().all(Option::is_none), "it fits everywhere");
    let whole = |at: usize, seed| {
        let mut all = hostile(MOST_ASKING, seed).containers.to_vec();
        for (place, ask) in all.iter_mut().enumerate() {
            ask.role = [Role::Init, Role::Sidecar, Role::App][place * 3 / MOST_ASKING];
            if place % 8 == at {
                ask.want = Want::Whole;
            }
        }
        asks(all)
    };
    let pods = [
        hostile(MOST_ASKING, 1),
        hostile(MOST_ASKING, 77),
        hostile(2, 3),
        whole(3, 5),
        knapsack(MOST_ASKING, 1, 79_000),
        knapsack(9, 1, 80_000),
        knapsack(16, 2, 85_000),
    ];
    for (at, pod) in pods.iter().enumerate() {
        let (_, taken) = filter(&books, &names, pod);
        let compared = format!("pod {at}: {taken} steps, an ordinary one {ordinary}");
        println!("{compared}");
        assert!(taken <= 10 * ordinary, "{compared}");
    }
}

#[test]
fn what_was_not_found_out_is_never_called_too_small() {
    let books = ledger(&[("n", &UNEQUAL)]);
    let ask = knapsack(16, 1, 16 * 6_000);
    let steps = Steps::new(0);
    let why = books.fit("n", &pod(0), &books.search(&ask, &steps));
    assert_eq!(
        why.expect_err("undecided").to_string(),
        "not searched: other nodes used up all 0 steps for 16 containers that share cards: \
         use fewer containers, or ask for whole cards"
    );
    let (books, names) = large();
    let (said, _) = filter(&books, &names, &knapsack(9, 1, 80_000));
    let mut said = said.iter().flatten();
    let too_complex = said.find(|why| matches!(why, Why::TooComplex { .. }));
    assert_eq!(
        too_complex.expect("some node is hard").to_string(),
        "the search gave up after 10000 steps for 9 containers that share cards: \
         use fewer containers, or ask for whole cards"
    );
}

#[test]
fn a_pod_of_a_few_containers_is_decided_on_all_of_5000_nodes() {
    let (books, names) = large();
    for size in [7_900, 13_000] {
        let two = asks([
            container("a", Role::App, 1, share(size)),
            container("b", Role::App, 2, share(size / 3)),
        ]);
        let (said, _) = filter(&books, &names, &two);
        let undecided = |why: &Why| matches!(why, Why::TooComplex { .. } | Why::NotReached { .. });
        assert!(!said.iter().flatten().any(undecided), "{size} MiB");
    }
}

#[test]
fn a_pod_of_many_containers_that_fits_is_placed_and_no_card_past_its_size() {
    for containers in [8, 20, MOST_ASKING] {
        for seed in 0..20 {
            let mut books = ledger(&[("n", &UNEQUAL)]);
            let ask = hostile(containers, seed);
            let placed = books.reserve(&pod(0), &node("n"), &ask);
            assert!(placed.is_ok(), "{containers}, {seed}: {placed:?}");
            let used = books.used("n");
            let within = used.iter().zip(UNEQUAL).all(|(used, size)| *used <= size);
            assert!(within, "{used:?}");
        }
    }
}

#[test]
fn what_filter_offers_bind_finds() {
    let (books, names) = large();
    let mut offered = 0;
    for seed in 0..40 {
        let ask = knapsack(12, seed, 60_000 + seed * 500);
        let name = &names[usize::try_from(seed).expect("small") * 100];
        let steps = Steps::for_request();
        let rooms = books.node(name).expect("known").rooms();
        if books.search(&ask, &steps).why(rooms).is_none() {
            offered += 1;
            let placed = books.clone().reserve(&pod(0), &node(name), &ask);
            assert!(placed.is_ok(), "{seed}: {placed:?}");
        }
    }
    assert!(offered > 0, "none was offered");
}

#[test]
fn the_choice_of_victims_for_a_hostile_pod_ends() {
    let mut books = ledger(&[("n", &UNEQUAL)]);
    let uids: Vec<PodUid> = (1..=64).map(pod).collect();
    for uid in &uids {
        let placed = books.reserve(uid, &node("n"), &ask(1_500));
        placed.expect("there is room");
    }
    let occupants = uids.iter().map(|uid| Occupant {
        pod: uid,
        rank: Rank::within_budget(0),
        started: 0,
        guard: Guard::Free,
        going: false,
        charges: books.booking(uid.as_str()).expect("booked").charges(),
    });
    let site = Site {
        rooms: books.node("n").expect("known").rooms().to_vec(),
        occupants: occupants.collect(),
    };
    let steps = Steps::new(100_000);
    let hostile = knapsack(16, 1, 16 * 5_000);
    let search = books.search(&hostile, &steps);
    let rank = Rank::within_budget(1);
    let chosen = choose(&site, &search, rank, &[], None, &steps);
    assert!(steps.taken() <= 150_000, "{} steps", steps.taken());
    assert_eq!(
        chosen,
        VictimChoice::Unknown,
        "nobody knows who would have to go"
    );
}
