//! What holds whatever the budgets and pods are.

use proptest::prelude::*;

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const POLICIES: [&str; 3] = ["Demote", "ThrottleNew", "EvictWithGrace"];

fn marks() -> impl Strategy<Value = Marks> {
    let name = prop::option::of(prop::sample::select(&NAMES[..]));
    (name, any::<bool>(), prop::option::of(-100..100_i64)).prop_map(|(over, restored, evict)| {
        Marks {
            over: over.map(str::to_owned),
            restored,
            evict_at: evict.map(at),
        }
    })
}

/// Namespace, creation, cards, stage, whether it ends and is of the low class, marks.
type Drawn = (&'static str, i64, u32, Stage, [bool; 2], Marks);

fn stages() -> impl Strategy<Value = Stage> {
    prop::sample::select(&[Stage::Waits, Stage::Pending, Stage::Placed][..])
}

prop_compose! {
    fn pods()(pods in prop::collection::vec(
        (prop::sample::select(&NAMES[..]), 0..9_i64, 1..4_u32, stages(), any::<[bool; 2]>(), marks()), 0..12,
    )) -> Vec<Subject> {
        let pod = |(number, drawn): (usize, Drawn)| {
            let (namespace, created, cards, stage, [ending, low_class], marks) = drawn;
            Subject {
                created, cards, stage, ending, low_class, marks,
                ..runs(&format!("{number:02}"), namespace)
            }
        };
        pods.into_iter().enumerate().map(pod).collect()
    }
}

prop_compose! {
    fn world()(
        budgets in prop::collection::vec((any::<bool>(), 0..3_usize, prop::option::of(0..3000_i64), 0..200_i64), 4),
        // The last namespaces may have no budget.
        number in 2..5_usize,
        pods in pods(),
    ) -> World {
        let mut world = World { pods, ..World::default() };
        for (name, (exhausted, policy, remaining, grace)) in NAMES.into_iter().zip(budgets).take(number) {
            let status = json!({"exhausted": exhausted, "remainingSeconds": remaining});
            world = world.budget(name, POLICIES[policy], status).grace(name, grace);
        }
        world
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_was_done_is_not_done_again(world in world(), seconds in -50..50_i64) {
        let mut world = world;
        let first = world.plan_at(seconds);
        world.does(&first);
        // The first step sets marks and admits pods, and admitted pods may be marked in the second. No pod is marked and
        // evicted in the same step.
        let second = world.plan_at(seconds);
        world.does(&second);
        let third = world.plan_at(seconds);
        world.does(&third);
        let left = world.plan_at(seconds);
        // Marking or evicting a pod makes room for no waiting pod, so nothing is left.
        prop_assert_eq!(short(&left), vec![]);
    }

    #[test]
    fn a_pod_is_marked_exactly_while_its_budget_is_used_up(world in world()) {
        let mut world = world;
        for _ in 0..3 {
            let plan = world.plan_at(0);
            world.does(&plan);
        }
        for pod in world.pods.iter().filter(|pod| !pod.ending && pod.stage != Stage::Waits) {
            let budget = world.budgets.get(&pod.id.namespace).filter(|budget| is_exhausted(budget));
            let over = budget.map(ResourceExt::name_any);
            prop_assert_eq!(&pod.marks.over, &over);
            prop_assert_eq!(pod.marks.restored, pod.low_class && over.is_none());
        }
    }

    #[test]
    fn nobody_is_evicted_untold_early_or_while_there_is_budget(world in world(), seconds in -50..50_i64) {
        for action in world.plan_at(seconds).actions {
            if action.what == What::Evict {
                let told = action.pod.marks.evict_at;
                prop_assert!(told.is_some_and(|told| told <= at(seconds)), "{:?}", action);
                let budget = &world.budgets[&action.pod.id.namespace];
                prop_assert!(is_exhausted(budget));
                prop_assert_eq!(budget.spec.when_exhausted, WhenExhausted::EvictWithGrace);
                prop_assert!(action.pod.stage == Stage::Placed && !action.pod.ending);
            }
        }
    }

    #[test]
    fn nobody_is_let_in_while_its_budget_makes_new_pods_wait_nor_before_an_older_one_of_the_same_size(world in world()) {
        let plan = world.plan_at(0);
        let opened = |pod: &Subject| {
            let mut actions = plan.actions.iter();
            actions.any(|action| action.what == What::Open && action.pod.id.uid == pod.id.uid)
        };
        for pod in world.pods.iter().filter(|pod| pod.stage == Stage::Waits && !pod.ending) {
            let budget = world.budgets.get(&pod.id.namespace);
            let waits = budget.is_some_and(|budget| {
                is_exhausted(budget) && budget.spec.when_exhausted == WhenExhausted::ThrottleNew
            });
            prop_assert!(!(waits && opened(pod)));
            let older = world.pods.iter().filter(|other| {
                other.stage == Stage::Waits && !other.ending && other.id.namespace == pod.id.namespace
                    && other.cards == pod.cards && (other.created, &other.id.uid) < (pod.created, &pod.id.uid)
            });
            for older in older {
                prop_assert!(!opened(pod) || opened(older), "{:?} before {:?}", pod, older);
            }
        }
    }
}
