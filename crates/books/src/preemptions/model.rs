//! Refusals, steps, lost answers, late effects, lagging watches, budgets that are used up and refilled, restarts and
//! changes of the leader in any order: no card is given out twice, no pod is evicted for one that does not outrank
//! it, claims count in the books exactly while they exist, and every claim comes to an end.

mod cluster;

use gpushare_core::preempt::Evictor;
use proptest::prelude::*;

use super::tests::{CARD_GIB, MINUTE, SECOND};
use cluster::Model;

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[derive(Clone, Debug)]
enum Event {
    Create {
        pod: usize,
        gib: u64,
        priority: i32,
    },
    Refuse {
        pod: usize,
        evictor: Evictor,
    },
    Bind(usize),
    /// The leader looks for steps that are due.
    Look,
    /// A request takes effect; a PodDisruptionBudget may refuse an eviction.
    Effect {
        request: usize,
        protected: bool,
    },
    Answer {
        request: usize,
        lost: bool,
    },
    Delete(usize),
    End(usize),
    /// The timekeeper marks that the pod's budget is used up, or no longer is.
    Mark {
        pod: usize,
        over: bool,
    },
    Show {
        replica: usize,
        changes: usize,
    },
    /// The other replica leads.
    Lead,
    Restart(usize),
    Pass(i64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let pod = 0..NAMES.len();
    let evictor = prop_oneof![Just(Evictor::Gpushare), Just(Evictor::Scheduler)];
    let event = prop_oneof![
        3 => (pod.clone(), 1..=CARD_GIB, 0..4i32)
            .prop_map(|(pod, gib, priority)| Event::Create { pod, gib, priority }),
        4 => (pod.clone(), evictor).prop_map(|(pod, evictor)| Event::Refuse { pod, evictor }),
        4 => pod.clone().prop_map(Event::Bind),
        4 => Just(Event::Look),
        4 => (0..4usize, prop::bool::weighted(0.2))
            .prop_map(|(request, protected)| Event::Effect { request, protected }),
        4 => (0..4usize, prop::bool::weighted(0.3))
            .prop_map(|(request, lost)| Event::Answer { request, lost }),
        1 => pod.clone().prop_map(Event::Delete),
        2 => pod.clone().prop_map(Event::End),
        2 => (pod, any::<bool>()).prop_map(|(pod, over)| Event::Mark { pod, over }),
        6 => (0..2usize, 1..4usize)
            .prop_map(|(replica, changes)| Event::Show { replica, changes }),
        1 => Just(Event::Lead),
        1 => (0..2usize).prop_map(Event::Restart),
        2 => prop_oneof![Just(SECOND), Just(20 * SECOND), Just(2 * MINUTE), Just(11 * MINUTE)]
            .prop_map(Event::Pass),
    ];
    prop::collection::vec(event, 1..80)
}

proptest! {
    #[test]
    fn claims_are_neither_lost_nor_left_whatever_happens(events in events()) {
        let mut model = Model::new();
        for event in &events {
            model.happens(event);
            model.check();
        }
        model.settles();
    }
}
