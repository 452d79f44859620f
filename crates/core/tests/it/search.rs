//! Every shape of request on the cards of one node: where it goes, or the fewest obstacles.

use std::sync::Arc;

use crate::common::{Books, asks, card, container, fit, ledger, node, pod, share};
use gpushare_core::choice::{Choice, Pattern};
use gpushare_core::gpu::{self, CORE, MEMORY};
use gpushare_core::ledger::Ledger;
use gpushare_core::request::{ContainerAsk, Part, PodAsk, Role, Want};
use gpushare_core::room::CardRoom;
use gpushare_core::why::Obstacles;
use gpushare_core::{Amounts, Card, PodUid, Search, Steps};
use proptest::prelude::*;

fn one(cards: u32, want: Want) -> PodAsk {
    asks([container("c", Role::App, cards, want)])
}

/// The indexes of the cards of each container.
fn placed(ledger: &mut Ledger, number: usize, ask: &PodAsk) -> Vec<Vec<String>> {
    let placement = ledger.reserve(&pod(number), &node("n"), ask).expect("fits");
    let cards = |shares: &[gpushare_core::placement::Share]| {
        shares.iter().map(|share| share.card.to_string()).collect()
    };
    placement
        .containers
        .iter()
        .map(|c| cards(&c.shares))
        .collect()
}

/// Checks that the node refuses the pod, and what it says.
fn refused(ledger: &Ledger, ask: &PodAsk, reason: &str) {
    let why = fit(ledger, "n", &pod(99), ask);
    assert_eq!(why.expect_err("refused").to_string(), reason);
}

#[test]
fn several_cards_are_different_ones_the_tightest_first() {
    let mut ledger = ledger(&[("n", &[8, 8, 8, 8])]);
    assert_eq!(placed(&mut ledger, 0, &one(1, share(2))), [["GPU-0"]]);
    assert_eq!(
        placed(&mut ledger, 1, &one(3, share(6))),
        [["GPU-0", "GPU-1", "GPU-2"]]
    );
    assert_eq!(ledger.used("n"), [8, 6, 6, 0]);
    refused(
        &ledger,
        &one(2, share(4)),
        "fewer than 2 cards have 4 MiB of memory free, 2 have at most 2",
    );
}

#[test]
fn a_whole_card_is_one_that_nobody_uses_and_nobody_joins() {
    let mut ledger = ledger(&[("n", &[8, 16])]);
    placed(&mut ledger, 0, &one(1, share(1)));
    assert_eq!(placed(&mut ledger, 1, &one(1, Want::Whole)), [["GPU-1"]]);
    assert_eq!(ledger.used("n"), [1, 16]);
    refused(
        &ledger,
        &one(1, Want::Whole),
        "1 unused card needed, 0 free",
    );
    refused(
        &ledger,
        &one(1, share(12)),
        "no card has 12 MiB of memory free, the most is 7",
    );
    ledger.release(&pod(1));
    assert_eq!(ledger.used("n"), [1, 0]);
}

#[test]
fn a_whole_card_stays_whole_when_its_size_changes() {
    let mut ledger = ledger(&[("n", &[8])]);
    placed(&mut ledger, 0, &one(1, Want::Whole));
    ledger.set_node(&node("n"), vec![card(0, 16)]);
    assert!(fit(&ledger, "n", &pod(1), &one(1, share(1))).is_err());
}

#[test]
fn containers_share_a_card_where_they_can_and_part_where_they_must() {
    let both = |size| {
        asks([
            container("a", Role::App, 1, share(size)),
            container("b", Role::App, 1, share(size)),
        ])
    };
    let mut together = ledger(&[("n", &[8, 8])]);
    assert_eq!(placed(&mut together, 0, &both(3)), [["GPU-0"], ["GPU-0"]]);
    let mut apart = ledger(&[("n", &[8, 8])]);
    assert_eq!(placed(&mut apart, 0, &both(5)), [["GPU-0"], ["GPU-1"]]);
    refused(
        &ledger(&[("n", &[8])]),
        &both(5),
        "the cards cannot hold what all containers need together",
    );
}

#[test]
fn an_init_container_uses_the_card_before_the_others_do() {
    let ask = asks([
        container("setup", Role::Init, 1, share(6)),
        container("a", Role::App, 1, share(4)),
        container("b", Role::App, 1, share(3)),
    ]);
    let mut books = ledger(&[("n", &[8])]);
    assert_eq!(
        placed(&mut books, 0, &ask),
        [["GPU-0"], ["GPU-0"], ["GPU-0"]]
    );
    assert_eq!(books.used("n"), [7]);
    let sidecar = asks([
        container("s", Role::Sidecar, 1, share(3)),
        container("setup", Role::Init, 1, share(6)),
    ]);
    assert!(fit(&ledger(&[("n", &[8])]), "n", &pod(1), &sidecar).is_err());
}

#[test]
fn a_card_held_whole_by_an_init_container_serves_the_apps_after_it() {
    let ask = asks([
        container("setup", Role::Init, 1, Want::Whole),
        container("a", Role::App, 1, share(4)),
    ]);
    let mut ledger = ledger(&[("n", &[8, 8])]);
    assert_eq!(placed(&mut ledger, 0, &ask), [["GPU-0"], ["GPU-0"]]);
    assert_eq!(ledger.used("n"), [8, 0]);
}

#[test]
fn a_container_with_several_cards_lends_them_to_the_others() {
    let ask = asks([
        container("a", Role::App, 2, share(5)),
        container("b", Role::App, 1, share(3)),
        container("c", Role::App, 1, Want::Whole),
    ]);
    let mut ledger = ledger(&[("n", &[8, 8, 8])]);
    let cards = placed(&mut ledger, 0, &ask);
    assert_eq!(cards[2], ["GPU-0"]);
    assert_eq!(cards[0], ["GPU-1", "GPU-2"]);
    assert!(cards[0].contains(&cards[1][0]));
}

#[test]
fn percents_are_taken_of_each_cards_own_size() {
    let half = Want::Share(Part {
        amounts: Amounts::ZERO,
        percent: Amounts::of(MEMORY, 50),
    });
    let mut ledger = ledger(&[("n", &[8, 16])]);
    placed(&mut ledger, 0, &one(2, half));
    assert_eq!(ledger.used("n"), [4, 8]);
}

#[test]
fn memory_and_compute_must_be_free_on_the_same_card() {
    let mixed = |memory, core| Want::share(Amounts::of(MEMORY, memory).with(CORE, core));
    let mut ledger = ledger(&[("n", &[8, 8])]);
    placed(&mut ledger, 0, &one(1, mixed(7, 10)));
    placed(&mut ledger, 1, &one(1, mixed(2, 80)));
    assert_eq!(ledger.used("n"), [7, 2]);
    refused(
        &ledger,
        &one(1, mixed(6, 50)),
        "no card has everything needed free",
    );
    placed(&mut ledger, 2, &one(1, mixed(1, 50)));
    assert_eq!(ledger.used("n"), [8, 2]);
}

fn with_model(index: u32, memory: u64, model: &str) -> Card {
    Card {
        model: model.into(),
        ..card(index, memory)
    }
}

#[test]
fn the_reason_is_the_fewest_things_that_would_have_to_change() {
    let mut choosy = container("c", Role::App, 1, share(6));
    choosy.choice = Arc::new(Choice {
        models: Pattern::words("A10").into_iter().collect(),
        ..Choice::default()
    });
    let ask = asks([choosy]);
    let mut books = ledger(&[]);
    let sick = Card {
        healthy: false,
        ..with_model(1, 8, "NVIDIA A10")
    };
    books.set_node(&node("n"), vec![with_model(0, 8, "Tesla T4")]);
    refused(
        &books,
        &ask,
        "the pod's selectors exclude the cards that have room",
    );
    books.set_node(
        &node("n"),
        vec![with_model(0, 4, "NVIDIA A10"), sick.clone()],
    );
    refused(&books, &ask, "the cards that have room are unhealthy");
    books.set_node(&node("n"), vec![with_model(0, 4, "NVIDIA A10")]);
    refused(
        &books,
        &ask,
        "no card has 6 MiB of memory in all, the most is 4",
    );
    books.set_node(&node("n"), vec![with_model(0, 8, "NVIDIA A10")]);
    placed(&mut books, 0, &one(1, share(3)));
    refused(
        &books,
        &ask,
        "no card has 6 MiB of memory free, the most is 5",
    );
    books.set_node(&node("n"), vec![sick]);
    refused(&books, &ask, "the cards that have room are unhealthy");
}

#[test]
fn another_class_of_devices_is_booked_by_the_same_code() {
    let nic = gpushare_core::DeviceClass::new("rdma", &[("bandwidth", "Mbit/s")]).unwrap();
    let classes = [gpu::class(), nic].into_iter().collect();
    let mut ledger = Ledger::new(classes);
    let port = |index| Card {
        class: "rdma".into(),
        capacity: Amounts::of(0, 100_000),
        id: format!("mlx5_{index}").as_str().into(),
        ..card(index, 0)
    };
    ledger.set_node(&node("n"), vec![card(0, 8), port(0), port(1)]);
    let rdma = ContainerAsk {
        class: "rdma".into(),
        ..container("c", Role::App, 1, Want::share(Amounts::of(0, 60_000)))
    };
    let both = asks([container("c", Role::App, 1, share(4)), rdma]);
    assert_eq!(placed(&mut ledger, 0, &both), [["GPU-0"], ["mlx5_0"]]);
    assert_eq!(placed(&mut ledger, 1, &both), [["GPU-0"], ["mlx5_1"]]);
    ledger.release(&pod(0));
    placed(&mut ledger, 2, &one(1, share(1)));
    assert_eq!(ledger.used("n"), [5, 0, 60_000]);
}

/// Size, the amount held, whether the card is healthy, and whether it is a T4.
pub(crate) type SomeCard = (u64, u64, bool, bool);
/// Number of cards, the amount of each (`None` for all of it), and the role.
pub(crate) type SomeAsk = (u32, Option<u64>, usize);

#[derive(Clone, Debug)]
struct Shape {
    cards: Vec<SomeCard>,
    asks: Vec<SomeAsk>,
}

pub(crate) fn some_card() -> impl Strategy<Value = SomeCard> {
    (1..9_u64, 0..9_u64, prop::bool::weighted(0.8), any::<bool>())
}

pub(crate) fn some_ask() -> impl Strategy<Value = SomeAsk> {
    (1..3_u32, prop::option::weighted(0.8, 1..7_u64), 0..3_usize)
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        prop::collection::vec(some_card(), 1..5),
        prop::collection::vec(some_ask(), 1..4),
    )
        .prop_map(|(cards, asks)| Shape { cards, asks })
}

fn roles(at: usize) -> Role {
    [Role::Init, Role::Sidecar, Role::App][at]
}

fn built(shape: &Shape, choosy: bool) -> (Ledger, PodAsk) {
    let mut books = ledger(&[]);
    add_node(&mut books, "n", &shape.cards);
    (books, some_pod(&shape.asks, choosy))
}

/// Adds a node with these cards, and pods that hold the given amounts.
pub(crate) fn add_node(books: &mut Ledger, name: &str, cards: &[SomeCard]) {
    let built = cards
        .iter()
        .zip(0..)
        .map(|((size, _, healthy, t4), index)| Card {
            healthy: *healthy,
            ..with_model(index, *size, if *t4 { "T4" } else { "A10" })
        });
    let built: Vec<Card> = built.collect();
    let healthy = built.iter().cloned().map(|card| Card {
        healthy: true,
        ..card
    });
    books.set_node(&node(name), healthy.collect());
    for (number, (_, held, _, _)) in cards.iter().enumerate() {
        let holder = PodUid::new(format!("{name}-{number}"));
        let _ = books.reserve(&holder, &node(name), &one(1, share(*held)));
    }
    books.set_node(&node(name), built);
}

pub(crate) fn some_pod(containers: &[SomeAsk], choosy: bool) -> PodAsk {
    let choice = Arc::new(Choice {
        models: Pattern::words("T4")
            .into_iter()
            .filter(|_| choosy)
            .collect(),
        ..Choice::default()
    });
    let containers = containers
        .iter()
        .zip(0..)
        .map(|((cards, want, role), index)| {
            let want = want.map_or(Want::Whole, share);
            ContainerAsk {
                choice: choice.clone(),
                ..container(&format!("c{index}"), roles(*role), *cards, want)
            }
        });
    asks(containers)
}

/// Whether the pod would fit on the node without these obstacles.
pub(crate) fn fits_without(books: &Ledger, name: &str, ask: &PodAsk, by: Obstacles) -> bool {
    let rooms = books.node(name).expect("known").rooms().iter();
    let rooms: Vec<CardRoom> = rooms
        .map(|old| {
            let mut new = if by.room { old.emptied() } else { old.clone() };
            new.card.healthy |= by.health;
            new
        })
        .collect();
    let mut containers = ask.containers.to_vec();
    if by.choice {
        for container in &mut containers {
            container.choice = Arc::default();
        }
    }
    let steps = Steps::for_request();
    Search::new(books.classes(), &asks(containers), &steps).fits(&rooms)
}

/// The same obstacles with one of them left out.
pub(crate) fn fewer(by: Obstacles) -> impl Iterator<Item = Obstacles> {
    let all = [
        Obstacles { room: false, ..by },
        Obstacles {
            health: false,
            ..by
        },
        Obstacles {
            choice: false,
            ..by
        },
    ];
    all.into_iter().filter(move |less| *less != by)
}

/// Whether any assignment fits, by trying every one.
fn fits_by_force(rooms: &[CardRoom], ask: &PodAsk, taken: &mut Vec<Vec<usize>>) -> bool {
    let Some(next) = ask.containers.get(taken.len()) else {
        return rooms
            .iter()
            .enumerate()
            .all(|(card, room)| holds(room, card, ask, taken));
    };
    let wanted = next.cards;
    (0..1_usize << rooms.len())
        .filter(|set| set.count_ones() == wanted)
        .any(|set| {
            taken.push(
                (0..rooms.len())
                    .filter(|card| set >> card & 1 == 1)
                    .collect(),
            );
            let fits = fits_by_force(rooms, ask, taken);
            taken.pop();
            fits
        })
}

fn holds(room: &CardRoom, card: usize, ask: &PodAsk, taken: &[Vec<usize>]) -> bool {
    let mine: Vec<&ContainerAsk> = ask
        .containers
        .iter()
        .zip(taken)
        .filter(|(_, cards)| cards.contains(&card))
        .map(|(ask, _)| ask)
        .collect();
    if mine.is_empty() {
        return true;
    }
    let accepted = room.card.healthy && mine.iter().all(|ask| ask.choice.accepts(&room.card));
    let whole = mine.iter().any(|ask| ask.want == Want::Whole);
    let held = mine
        .iter()
        .map(|ask| (ask.role, ask.want.on(&room.card.capacity)));
    let peak = gpushare_core::request::peak(held);
    accepted && (!whole || room.is_untouched()) && peak.fits_in(&room.free())
}

proptest! {
    #[test]
    fn a_pod_fits_exactly_when_some_assignment_holds(shape in shape(), choosy in any::<bool>()) {
        let (mut ledger, ask) = built(&shape, choosy);
        let possible = {
            let rooms = ledger.node("n").expect("known").rooms();
            fits_by_force(rooms, &ask, &mut Vec::new())
        };
        prop_assert_eq!(fit(&ledger, "n", &pod(99), &ask).is_ok(), possible);
        let placed = ledger.reserve(&pod(99), &node("n"), &ask);
        prop_assert_eq!(placed.is_ok(), possible);
        for card in ledger.node("n").expect("known").cards() {
            prop_assert!(card.used.fits_in(&card.card.capacity));
        }
    }

    #[test]
    fn without_the_stated_obstacles_the_pod_fits_and_with_fewer_gone_it_does_not(
        shape in shape(), choosy in any::<bool>(),
    ) {
        let (ledger, ask) = built(&shape, choosy);
        let Err(gpushare_core::Why::Blocked { by, .. }) = fit(&ledger, "n", &pod(99), &ask) else {
            return Ok(());
        };
        prop_assert!(fits_without(&ledger, "n", &ask, by));
        for fewer in fewer(by) {
            prop_assert!(!fits_without(&ledger, "n", &ask, fewer));
        }
    }
}
