//! Checks the choice of victims against a search of every possible set.

use std::cmp::Reverse;
use std::mem;

use gpushare_core::card::Card;
use gpushare_core::gpu::{CORE, MEMORY};
use gpushare_core::placement::Hold;
use gpushare_core::preempt::{Cost, Guard, Plan, Rank, Spending, VictimChoice, choose};
use gpushare_core::request::{ContainerAsk, PodAsk, Role, Want};
use gpushare_core::room::CardRoom;
use gpushare_core::{Amounts, CardId, Search, Steps};
use proptest::prelude::*;

use super::{NIC, Node, PLENTY, Pod, classes, nic};
use crate::common::{asks, card, container, share};

#[derive(Clone, Debug)]
struct Case {
    cards: Vec<Card>,
    pods: Vec<Pod>,
    headroom: Vec<u32>,
    rank: Rank,
    ask: PodAsk,
}

fn spending(over: bool) -> Spending {
    if over {
        Spending::OverBudget
    } else {
        Spending::WithinBudget
    }
}

fn guard() -> impl Strategy<Value = Guard> {
    prop_oneof![
        4 => Just(Guard::Free),
        3 => (0..2_usize).prop_map(Guard::Counted),
        1 => Just(Guard::Protected),
    ]
}

prop_compose! {
    fn pods()(pods in prop::collection::vec(
        (0..4_i32, any::<bool>(), 0..3_i64, guard(), prop::bool::weighted(0.1),
         prop::collection::vec((0..4_usize, 1..7_u64, prop::bool::weighted(0.1)), 1..3)),
        0..8,
    )) -> Vec<(Pod, Vec<(usize, u64, bool)>)> {
        let pod = |(number, (priority, over, started, guard, going, wants)): (usize, _)| {
            let pod = Pod {
                rank: Rank { spending: spending(over), priority }, started, guard, going,
                ..Pod::new(&format!("uid-{number}"), 0, &[])
            };
            (pod, wants)
        };
        pods.into_iter().enumerate().map(pod).collect()
    }
}

fn some_pod() -> impl Strategy<Value = PodAsk> {
    let app = |name, cards, want| container(name, Role::App, cards, want);
    let one = move |cards, want| asks([app("c", cards, want)]);
    let beside = move |memory: u64, bandwidth: u64| {
        let nic = ContainerAsk {
            class: NIC.into(),
            ..app("c", 1, Want::share(Amounts::of(0, bandwidth)))
        };
        asks([app("c", 1, share(memory)), nic])
    };
    let two =
        move |a: u64, b: u64, cards: u32| asks([app("a", cards, share(a)), app("b", 1, share(b))]);
    prop_oneof![
        4 => (1..3_u32, 1..13_u64).prop_map(move |(cards, memory)| one(cards, share(memory))),
        2 => (1..3_u32).prop_map(move |cards| one(cards, Want::Whole)),
        2 => (1..9_u64, 1..9_u64, 1..3_u32).prop_map(move |(a, b, cards)| two(a, b, cards)),
        1 => (1..9_u64, 1..9_u64).prop_map(move |(memory, bandwidth)| beside(memory, bandwidth)),
    ]
}

prop_compose! {
    fn case()(
        sizes in prop::collection::vec(prop_oneof![Just(8_u64), Just(12)], 1..4),
        nics in prop::collection::vec(Just(8_u64), 0..2),
        pods in pods(),
        headroom in prop::collection::vec(0..3_u32, 2),
        priority in 1..6_i32,
        over in prop::bool::weighted(0.2),
        ask in some_pod(),
    ) -> Case {
        let cards: Vec<Card> = (0..).zip(&sizes).map(|(index, size)| card(index, *size))
            .chain((0..).zip(&nics).map(|(index, size)| nic(index, *size)))
            .collect();
        let mut rooms: Vec<CardRoom> = cards.iter().cloned().map(CardRoom::new).collect();
        let number = rooms.len();
        let settle = |(mut pod, wants): (Pod, Vec<(usize, u64, bool)>)| {
            for (at, amount, whole) in wants {
                let room = &mut rooms[at % number];
                let hold = if whole { Hold::Whole } else { Hold::Part(Amounts::of(0, amount)) };
                if room.has(&hold) && pod.charges.get(&room.card.id).is_none() {
                    room.take(&hold);
                    let one = (room.card.id.clone(), hold);
                    pod.charges = mem::take(&mut pod.charges).into_iter().chain([one]).collect();
                }
            }
            pod
        };
        let pods = pods.into_iter().map(settle).collect();
        Case { cards, pods, headroom, rank: Rank { spending: spending(over), priority }, ask }
    }
}

/// What these victims cost by the same rule, computed independently of the core.
fn cost(node: &Node, victims: &[&Pod]) -> Cost {
    let part = |id: &CardId, hold: &Hold| {
        let mut cards = node.cards.iter();
        let card = cards.find(|card| card.id == *id);
        let card = card.expect("a card of the node");
        let of = |dimension| {
            let amount = hold.on(&card.capacity).get(dimension);
            (card.capacity.get(dimension) > 0)
                .then(|| amount * 1_000_000 / card.capacity.get(dimension))
        };
        of(MEMORY).max(of(CORE)).unwrap_or(0)
    };
    let charges = victims.iter().flat_map(|pod| &pod.charges);
    let oldest = victims.iter().map(|pod| pod.started).min();
    let within = |pod: &&&Pod| pod.rank.spending == Spending::WithinBudget;
    Cost {
        rank: victims.iter().map(|pod| pod.rank).max(),
        within_budget: u32::try_from(victims.iter().filter(within).count()).expect("few"),
        victims: u32::try_from(victims.len()).expect("few"),
        amount: charges.map(|(id, hold)| part(id, hold)).sum(),
        oldest: Reverse(oldest.unwrap_or(i64::MAX)),
    }
}

impl Case {
    fn node(&self) -> Node {
        Node {
            cards: self.cards.clone(),
            pods: self.pods.clone(),
        }
    }

    /// Whether these victims may be evicted, and the pod fits after that.
    fn works(&self, search: &Search<'_>, victims: &[&Pod]) -> bool {
        let mut headroom = self.headroom.clone();
        for pod in victims {
            match pod.guard {
                Guard::Free => {}
                Guard::Counted(budget) if headroom[budget] > 0 => headroom[budget] -= 1,
                Guard::Counted(_) | Guard::Protected => return false,
            }
            // The same rule, written independently of the core.
            let outranked = match (self.rank.spending, pod.rank.spending) {
                (Spending::WithinBudget, Spending::OverBudget) => true,
                (Spending::OverBudget, Spending::WithinBudget) => false,
                _ => pod.rank.priority < self.rank.priority,
            };
            if pod.going || !outranked {
                return false;
            }
        }
        let gone = |pod: &Pod| pod.going || victims.iter().any(|victim| victim.uid == pod.uid);
        search.fits(&self.node().rooms(gone))
    }

    fn every_set(&self) -> impl Iterator<Item = Vec<&Pod>> {
        (0..1_u32 << self.pods.len()).map(|bits| {
            let chosen = |(at, _): &(usize, &Pod)| bits >> at & 1 == 1;
            let pods = self.pods.iter().enumerate().filter(chosen);
            pods.map(|(_, pod)| pod).collect()
        })
    }

    fn check(&self, search: &Search<'_>, plan: &Plan) {
        let victims = self.pods.iter();
        let victims = victims.filter(|pod| plan.victims.contains(&pod.uid));
        let victims: Vec<&Pod> = victims.collect();
        assert_eq!(victims.len(), plan.victims.len(), "{plan:?}");
        assert!(self.works(search, &victims), "{plan:?}");
        assert_eq!(plan.cost, cost(&self.node(), &victims));
        let gone = |pod: &Pod| pod.going || plan.victims.contains(&pod.uid);
        let mut rooms = self.node().rooms(gone);
        for (id, hold) in plan.placement.charges(&self.ask) {
            let room = rooms.iter_mut().find(|room| room.card.id == id);
            let room = room.expect("a card of the node");
            assert!(room.has(&hold), "{plan:?}");
            room.take(&hold);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_other_set_of_victims_is_cheaper(case in case()) {
        let (node, classes) = (case.node(), classes());
        let looks = Steps::new(u32::MAX);
        let search = Search::new(&classes, &case.ask, &looks);
        let sets = case.every_set().filter(|set| case.works(&search, set));
        let cheapest = sets.map(|set| cost(&node, &set)).min();
        let plan = node.choose(&case.ask, case.rank, &case.headroom);
        prop_assert_eq!(plan.as_ref().map(|plan| plan.cost), cheapest);
        if let Some(plan) = &plan {
            case.check(&search, plan);
        }
    }

    #[test]
    fn a_limit_asks_for_something_cheaper(case in case()) {
        let (node, classes) = (case.node(), classes());
        let looks = Steps::new(u32::MAX);
        let search = Search::new(&classes, &case.ask, &looks);
        let Some(plan) = node.choose(&case.ask, case.rank, &case.headroom) else {
            return Ok(());
        };
        let limited = |limit: Cost| {
            let steps = Steps::new(PLENTY);
            choose(&node.site(), &search, case.rank, &case.headroom, Some(&limit), &steps).plan()
        };
        prop_assert_eq!(limited(plan.cost), None);
        let worse = Cost { victims: plan.cost.victims + 1, ..plan.cost };
        prop_assert_eq!(limited(worse).map(|plan| plan.cost), Some(plan.cost));
    }

    #[test]
    fn nobody_within_budget_goes_where_those_over_it_suffice(case in case()) {
        let (node, classes) = (case.node(), classes());
        let looks = Steps::new(u32::MAX);
        let search = Search::new(&classes, &case.ask, &looks);
        let over = |set: &Vec<&Pod>| set.iter().all(|pod| pod.rank.is_over_budget());
        let mut sets = case.every_set().filter(|set| over(set) && case.works(&search, set));
        let suffice = sets.next().is_some();
        if let Some(plan) = node.choose(&case.ask, case.rank, &case.headroom) {
            prop_assert_eq!(plan.cost.within_budget == 0, suffice);
        }
    }

    #[test]
    fn with_few_steps_a_plan_is_dearer_but_never_wrong(
        case in case(),
        steps in 0..30_u32,
        looks in 0..300_u32,
    ) {
        let (node, classes, headroom) = (case.node(), classes(), &case.headroom);
        let (steps, looks) = (Steps::new(steps), Steps::new(looks));
        let search = Search::new(&classes, &case.ask, &looks);
        match choose(&node.site(), &search, case.rank, headroom, None, &steps) {
            VictimChoice::Plan(plan) => {
                let looks = Steps::new(u32::MAX);
                case.check(&Search::new(&classes, &case.ask, &looks), &plan);
            }
            VictimChoice::Nobody => {
                prop_assert_eq!(node.choose(&case.ask, case.rank, headroom), None);
            }
            VictimChoice::Unknown => {}
        }
    }
}
