//! Containers on the cards of nodes: whatever they ask for, the answer comes within the steps of one request, and for
//! few containers and cards it equals that of an exhaustive search.
//!
//! Input: lines. `card SIZE USED` is a card of every node, `app CARDS SHARE`, `init CARDS SHARE` and `sidecar CARDS
//! SHARE` are containers, whose share is an amount or `whole`; other lines are ignored.

use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::placement::Hold;
use gpushare_core::request::{
    ContainerAsk, MOST_ASKING, MOST_CARDS_IN_ALL, PodAsk, Role, Want, peak,
};
use gpushare_core::room::CardRoom;
use gpushare_core::{Amounts, Search, Steps, Why};
use gpushare_testkit::model::{card, container, share};

use super::on_text;
use crate::Verdict;

/// The most cards that are read; real nodes have fewer.
const MOST_CARDS: usize = 16;
/// With at most this many of each, an exhaustive search is made too.
const FEW: usize = 4;
/// The number of equal nodes in one filter request.
const NODES: usize = 40;

pub(crate) fn check(data: &[u8]) -> Verdict {
    on_text(data, |text| {
        let rooms = rooms(text);
        let Some(ask) = ask(text) else {
            return Verdict::Refused;
        };
        if rooms.is_empty() {
            return Verdict::Refused;
        }
        let (classes, steps) = (gpu::classes(), Steps::for_request());
        let search = Search::new(&classes, &ask, &steps);
        let why = search.why(&rooms);
        if rooms.len() <= FEW && ask.containers.len() <= FEW {
            let possible = fits_by_force(&rooms, &ask, &mut Vec::new());
            assert_eq!(why.is_none(), possible, "{why:?}");
        }
        is_placed(&search, &rooms, &ask, why.as_ref());
        for _ in 1..NODES {
            search.why(&rooms);
        }
        // Work that begins when too few steps are left still counts in full. This can happen on each node.
        let more = u64::try_from(NODES * (rooms.len() * 8 + 1_024)).expect("small");
        let most = u64::from(Steps::PER_REQUEST) + more;
        assert!(steps.taken() <= most, "{} steps", steps.taken());
        Verdict::Accepted
    })
}

/// Checks that what fits can be placed, and that no card holds more than it has.
fn is_placed(search: &Search<'_>, rooms: &[CardRoom], ask: &PodAsk, why: Option<&Why>) {
    let placed = search.place(rooms);
    if why.is_none() {
        assert!(placed.is_ok(), "{placed:?}");
    }
    let Ok(placement) = placed else {
        return;
    };
    for (id, hold) in placement.charges(ask) {
        let room = rooms.iter().find(|room| room.card.id == id);
        assert!(room.is_some_and(|room| room.has(&hold)), "{id}: {hold:?}");
    }
}

fn rooms(text: &str) -> Vec<CardRoom> {
    let cards = text.lines().filter_map(|line| {
        let (size, used) = line.strip_prefix("card ")?.split_once(' ')?;
        Some((size.parse::<u64>().ok()?, used.parse::<u64>().ok()?))
    });
    let room = |(index, (size, used)): (u32, (u64, u64))| {
        let mut room = CardRoom::new(card(&format!("GPU-{index}"), index, size));
        if used > 0 {
            room.take(&Hold::Part(Amounts::of(MEMORY, used)));
        }
        room
    };
    (0..).zip(cards.take(MOST_CARDS)).map(room).collect()
}

/// `None` if no container asks, or if the request exceeds what validation accepts.
fn ask(text: &str) -> Option<PodAsk> {
    let containers = text.lines().filter_map(|line| {
        let mut words = line.split(' ');
        let role = match words.next()? {
            "app" => Role::App,
            "init" => Role::Init,
            "sidecar" => Role::Sidecar,
            _ => return None,
        };
        let cards = words
            .next()?
            .parse::<u32>()
            .ok()
            .filter(|cards| (1..=64).contains(cards))?;
        let want = match words.next()? {
            "whole" => Want::Whole,
            amount => share(amount.parse().ok()?),
        };
        Some((role, cards, want))
    });
    let mut asks: Vec<ContainerAsk> = containers
        .take(MOST_ASKING)
        .enumerate()
        .map(|(at, (role, cards, want))| container(&format!("c{at}"), role, cards, want))
        .collect();
    // Init containers and sidecars start before the others.
    asks.sort_by_key(|ask| ask.role == Role::App);
    let cards: u32 = asks.iter().map(|ask| ask.cards).sum();
    let within = usize::try_from(cards).is_ok_and(|cards| (1..=MOST_CARDS_IN_ALL).contains(&cards));
    within.then(|| PodAsk {
        containers: asks.into(),
    })
}

/// Whether any assignment fits, by trying every one.
fn fits_by_force(rooms: &[CardRoom], ask: &PodAsk, taken: &mut Vec<u32>) -> bool {
    let Some(next) = ask.containers.get(taken.len()) else {
        return (0..)
            .zip(rooms)
            .all(|(card, room)| holds(room, card, ask, taken));
    };
    let sets = 0..1_u32 << rooms.len();
    sets.filter(|set| set.count_ones() == next.cards)
        .any(|set| {
            taken.push(set);
            let fits = fits_by_force(rooms, ask, taken);
            taken.pop();
            fits
        })
}

fn holds(room: &CardRoom, card: u32, ask: &PodAsk, taken: &[u32]) -> bool {
    let uses = |set: &u32| set >> card & 1 == 1;
    let here = ask
        .containers
        .iter()
        .zip(taken)
        .filter(|(_, set)| uses(set));
    let mine: Vec<&ContainerAsk> = here.map(|(ask, _)| ask).collect();
    let whole = mine.iter().any(|ask| ask.want == Want::Whole);
    let held = mine
        .iter()
        .map(|ask| (ask.role, ask.want.on(&room.card.capacity)));
    mine.is_empty() || ((!whole || room.is_untouched()) && peak(held).fits_in(&room.free()))
}
