//! Preemption: the cheapest victims, checked against a search of every possible set.

mod every_set;

use gpushare_core::amounts::DeviceClass;
use gpushare_core::card::Card;
use gpushare_core::gpu::{self, MEMORY};
use gpushare_core::placement::{Charges, Hold};
use gpushare_core::preempt::{Cost, Guard, Occupant, Plan, Rank, Site, VictimChoice, choose};
use gpushare_core::request::{PodAsk, Role};
use gpushare_core::room::CardRoom;
use gpushare_core::{Amounts, CardId, Classes, PodUid, Search, Steps};

use crate::common::{ask, asks, card, cards, container, share};

const PLENTY: u32 = 1_000_000;
const NIC: &str = "nic";

#[derive(Clone, Debug)]
struct Pod {
    uid: PodUid,
    rank: Rank,
    started: i64,
    guard: Guard,
    going: bool,
    charges: Charges,
}

impl Pod {
    fn new(name: &str, priority: i32, charges: &[(u32, u64)]) -> Self {
        let charge = |(index, memory): &(u32, u64)| {
            let hold = Hold::Part(Amounts::of(MEMORY, *memory));
            (CardId::new(format!("GPU-{index}")), hold)
        };
        Self {
            uid: name.into(),
            rank: Rank::within_budget(priority),
            started: 0,
            guard: Guard::Free,
            going: false,
            charges: charges.iter().map(charge).collect(),
        }
    }

    fn occupant(&self) -> Occupant<'_> {
        Occupant {
            pod: &self.uid,
            rank: self.rank,
            started: self.started,
            guard: self.guard,
            going: self.going,
            charges: &self.charges,
        }
    }
}

/// A pod of low priority on one card.
fn pod(name: &str, card: u32, memory: u64) -> Pod {
    Pod::new(name, 1, &[(card, memory)])
}

fn classes() -> Classes {
    let nic = DeviceClass::new(NIC, &[("bandwidth", "Mbit/s")]).expect("few dimensions");
    gpu::classes().iter().cloned().chain([nic]).collect()
}

fn nic(index: u32, bandwidth: u64) -> Card {
    Card {
        id: CardId::new(format!("NIC-{index}")),
        class: NIC.into(),
        capacity: Amounts::of(0, bandwidth),
        ..card(index, 0)
    }
}

/// A node with these pods on it.
struct Node {
    cards: Vec<Card>,
    pods: Vec<Pod>,
}

impl Node {
    fn new(sizes: &[u64], pods: &[Pod]) -> Self {
        Self {
            cards: cards(sizes),
            pods: pods.to_vec(),
        }
    }

    fn rooms<'a>(&self, without: impl Fn(&Pod) -> bool + 'a) -> Vec<CardRoom> {
        let mut rooms: Vec<CardRoom> = self.cards.iter().cloned().map(CardRoom::new).collect();
        for pod in self.pods.iter().filter(|pod| !without(pod)) {
            for room in &mut rooms {
                if let Some(hold) = pod.charges.get(&room.card.id) {
                    room.take(hold);
                }
            }
        }
        rooms
    }

    fn site(&self) -> Site<'_> {
        Site {
            rooms: self.rooms(|_| false),
            occupants: self.pods.iter().map(Pod::occupant).collect(),
        }
    }

    fn choose(&self, ask: &PodAsk, rank: Rank, headroom: &[u32]) -> Option<Plan> {
        let (classes, steps) = (classes(), Steps::new(PLENTY));
        let looks = Steps::new(u32::MAX);
        let search = Search::new(&classes, ask, &looks);
        choose(&self.site(), &search, rank, headroom, None, &steps).plan()
    }

    fn victims(&self, ask: &PodAsk, priority: i32) -> Option<Vec<String>> {
        let plan = self.choose(ask, Rank::within_budget(priority), &[])?;
        Some(plan.victims.iter().map(ToString::to_string).collect())
    }

    /// Whether the pod fits when the victims are gone.
    fn fits_without(&self, victims: &[PodUid], ask: &PodAsk) -> bool {
        let (classes, looks) = (classes(), Steps::for_request());
        let rooms = self.rooms(|pod| victims.contains(&pod.uid));
        Search::new(&classes, ask, &looks).fits(&rooms)
    }
}

/// On each card `pods` pods of low priority. `size` returns the size of a pod from its number on the
/// card.
fn on_each_card(cards: u32, pods: u64, size: impl Fn(u64) -> u64) -> Vec<Pod> {
    let places = (0..cards).flat_map(|card| (0..pods).map(move |at| (card, at)));
    places
        .map(|(card, at)| pod(&format!("{card:02}-{at:02}"), card, size(at)))
        .collect()
}

/// Checks which pods are evicted from two cards of 8 for a pod that asks for this much.
fn first_to_go(pods: &[Pod], memory: u64, victims: &[&str]) {
    let node = Node::new(&[8, 8], pods);
    let chosen = node.victims(&ask(memory), 9).expect("somebody can go");
    assert_eq!(chosen, victims, "{pods:?}");
}

#[test]
fn a_pod_of_equal_or_higher_priority_is_never_a_victim() {
    let node = Node::new(&[8], &[Pod::new("a", 5, &[(0, 8)])]);
    assert_eq!(node.victims(&ask(4), 5), None);
    assert_eq!(node.victims(&ask(4), 4), None);
    assert_eq!(node.victims(&ask(4), 6).unwrap(), ["a"]);
}

#[test]
fn the_victims_are_on_one_card_where_the_node_has_enough_in_total() {
    let pods = [pod("a", 0, 4), pod("b", 1, 4), pod("c", 1, 2)];
    let node = Node::new(&[8, 8], &pods);
    assert_eq!(node.victims(&ask(8), 2).unwrap(), ["a"]);
    let victims = node.victims(&ask(6), 2).unwrap();
    assert_eq!(victims, ["a"], "two hold the other card");
}

#[test]
fn two_of_low_priority_go_before_one_of_higher_priority() {
    let pods = [
        Pod::new("high", 3, &[(0, 8)]),
        pod("low-1", 1, 4),
        pod("low-2", 1, 4),
    ];
    first_to_go(&pods, 8, &["low-1", "low-2"]);
}

#[test]
fn those_over_their_budget_go_first_then_fewer_then_smaller_then_newer() {
    let pods = [pod("within", 1, 5), over("over", 1, &[(0, 8)])];
    first_to_go(&pods, 8, &["over"]);

    let pods = [pod("half-1", 0, 4), pod("half-2", 0, 4), pod("all", 1, 8)];
    first_to_go(&pods, 8, &["all"]);

    first_to_go(&[pod("big", 0, 8), pod("small", 1, 6)], 4, &["small"]);

    let mut newer = pod("newer", 0, 8);
    newer.started = 1;
    first_to_go(&[pod("older", 1, 8), newer], 4, &["newer"]);
}

/// A pod that has been marked as over its budget.
fn over(name: &str, priority: i32, charges: &[(u32, u64)]) -> Pod {
    Pod {
        rank: Rank::over_budget(priority),
        ..Pod::new(name, priority, charges)
    }
}

#[test]
fn whoever_is_over_budget_goes_for_anybody_within_it_whatever_the_priorities() {
    let node = Node::new(&[8], &[over("demoted", 5, &[(0, 8)])]);
    for priority in [6, 5, 4, -1000] {
        assert_eq!(node.victims(&ask(8), priority).unwrap(), ["demoted"]);
    }
    let low = Pod::new("low", -5, &[(1, 8)]);
    first_to_go(&[over("demoted", 5, &[(0, 8)]), low], 8, &["demoted"]);
}

#[test]
fn nobody_within_budget_goes_for_a_pod_that_is_over_it() {
    let node = Node::new(&[8], &[Pod::new("within", -5, &[(0, 8)])]);
    assert!(node.choose(&ask(8), Rank::over_budget(9), &[]).is_none());
    let restored = Rank::restored(-1000);
    assert_eq!(restored, Rank::within_budget(Rank::ORDINARY));
    assert_eq!(Rank::restored(7), Rank::within_budget(7));
}

#[test]
fn a_pod_that_is_ending_is_waited_for_and_nobody_else_goes() {
    let mut ending = Pod::new("ending", 9, &[(0, 8)]);
    ending.going = true;
    let node = Node::new(&[8, 8], &[ending, Pod::new("low", 0, &[(1, 8)])]);
    let plan = node.choose(&ask(8), Rank::within_budget(1), &[]).unwrap();
    assert_eq!(plan.victims, []);
    assert_eq!(plan.cost, Cost::NOTHING);
    assert_eq!(plan.placement.cards(), [&CardId::new("GPU-0")]);
}

#[test]
fn a_disruption_budget_spares_its_pods_down_to_the_last_one_it_lets_go() {
    let mut pods = [pod("a", 0, 4), pod("b", 0, 4)];
    for pod in &mut pods {
        pod.guard = Guard::Counted(0);
    }
    let node = Node::new(&[8], &pods);
    let high = Rank::within_budget(9);
    assert!(node.choose(&ask(4), high, &[0]).is_none());
    assert_eq!(node.choose(&ask(4), high, &[1]).unwrap().victims.len(), 1);
    assert!(node.choose(&ask(8), high, &[1]).is_none());
    assert_eq!(node.choose(&ask(8), high, &[2]).unwrap().victims.len(), 2);
}

#[test]
fn cards_that_the_pod_cannot_use_anyway_cost_nobody_its_place() {
    let pods = [pod("a", 0, 8), Pod::new("b", 2, &[(1, 16)])];
    let mut node = Node::new(&[8, 16], &pods);
    let victims = node.victims(&ask(12), 9).unwrap();
    assert_eq!(victims, ["b"], "the other is too small");
    node.cards[1].healthy = false;
    assert_eq!(node.victims(&ask(12), 9), None);
}

#[test]
fn a_large_node_is_decided_within_its_steps() {
    let node = Node::new(&[31; 16], &on_each_card(16, 16, |at| 1 + at % 3));
    let ask = asks([container("c", Role::App, 8, share(20))]);
    let classes = classes();
    let looks = Steps::for_request();
    let search = Search::new(&classes, &ask, &looks);
    let (steps, rank) = (Steps::new(20_000), Rank::within_budget(9));
    let plan = choose(&node.site(), &search, rank, &[], None, &steps).plan();
    assert!(node.fits_without(&plan.unwrap().victims, &ask));
}

/// Three containers; no card can take two of them.
fn three() -> PodAsk {
    let each = |at: u64| container(&format!("c{at}"), Role::App, 1, share(20 + at));
    asks((0..3).map(each))
}

/// Eight cards with four pods on each. Three pods must be evicted from each of three cards.
fn crowded() -> Node {
    Node::new(&[32; 8], &on_each_card(8, 4, |at| 7 + at % 2))
}

/// What is chosen on the `crowded` node for the pod of `three` containers, with this many steps.
fn chosen_in(steps: u32) -> VictimChoice {
    let (classes, ask, steps) = (classes(), three(), Steps::new(steps));
    let search = Search::new(&classes, &ask, &steps);
    let rank = Rank::within_budget(9);
    choose(&crowded().site(), &search, rank, &[], None, &steps)
}

#[test]
fn what_was_found_for_a_pod_of_several_containers_is_kept_when_the_steps_are_used_up() {
    for steps in [1_000, 5_000, 40_000] {
        let plan = chosen_in(steps).plan();
        let plan = plan.unwrap_or_else(|| panic!("nobody was found in {steps} steps"));
        assert!(crowded().fits_without(&plan.victims, &three()));
    }
}

#[test]
fn nobody_is_said_only_where_it_is_certain() {
    for steps in 0..200 {
        assert_ne!(chosen_in(steps), VictimChoice::Nobody, "with {steps} steps");
    }
}
