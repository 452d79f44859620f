mod always;

use std::collections::BTreeMap;

use gpushare_core::PodUid;
use gpushare_kube::PodRef;
use gpushare_kube::notice::Severity;
use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_800_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(NOW + seconds).unwrap()
}

/// Budgets, the namespaces `a` to `d` of which each pays from the budget of its name, and pods.
#[derive(Clone, Debug, Default)]
struct World {
    budgets: BTreeMap<String, GpuBudget>,
    pods: Vec<Subject>,
}

impl World {
    /// The pod `one` has ten minutes of grace.
    fn evicts() -> Self {
        Self::default()
            .exhausted("a", "EvictWithGrace")
            .grace("a", 600)
            .pod(runs("one", "a"))
    }

    fn budget(mut self, name: &str, when: &str, status: Value) -> Self {
        let mut budget = json!({
            "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": name},
            "spec": {"amount": "20h", "namespaces": {"names": [name]}, "whenExhausted": when},
        });
        budget["status"] = status;
        self.insert(budget);
        self
    }

    fn insert(&mut self, budget: Value) {
        let budget: GpuBudget = serde_json::from_value(budget).unwrap();
        self.budgets.insert(budget.name_any(), budget);
    }

    fn exhausted(self, name: &str, when: &str) -> Self {
        self.budget(name, when, json!({"exhausted": true}))
    }

    fn within(self, name: &str, when: &str) -> Self {
        self.budget(name, when, json!({"exhausted": false}))
    }

    fn grace(mut self, name: &str, seconds: i64) -> Self {
        self.budgets.get_mut(name).unwrap().spec.grace_seconds = Some(seconds);
        self
    }

    fn pod(mut self, pod: Subject) -> Self {
        self.pods.push(pod);
        self
    }

    fn plan_at(&self, seconds: i64) -> Plan {
        let names = ["a", "b", "c", "d"];
        let namespaces = names
            .map(|name| (name.to_owned(), Labels::default()))
            .into();
        let cluster = Cluster {
            budgets: &self.budgets,
            namespaces: &namespaces,
            pods: self.pods.clone(),
        };
        plan(&cluster, at(seconds))
    }

    /// Does what is planned, and then there is nothing more to do.
    fn settles(&mut self, plan: &Plan) {
        self.does(plan);
        assert_eq!(self.plan_at(0), Plan::default());
    }

    /// Does what is planned, as the API server would.
    fn does(&mut self, plan: &Plan) {
        for action in &plan.actions {
            let mut pods = self.pods.iter_mut();
            let pod = pods.find(|pod| pod.id.uid == action.pod.id.uid).unwrap();
            match &action.what {
                What::Mark(marks) => pod.marks = marks.clone(),
                What::Open => pod.stage = Stage::Pending,
                What::Evict => pod.ending = true,
            }
        }
    }
}

/// A pod of this namespace that runs, within budget when it was created.
fn runs(uid: &str, namespace: &str) -> Subject {
    Subject {
        id: PodRef {
            uid: PodUid::new(uid),
            namespace: namespace.to_owned(),
            name: uid.to_owned(),
        },
        version: "1".to_owned(),
        created: 0,
        cards: 1,
        stage: Stage::Placed,
        ending: false,
        low_class: false,
        marks: Marks::default(),
    }
}

fn waits(uid: &str, namespace: &str, created: i64) -> Subject {
    Subject {
        stage: Stage::Waits,
        created,
        ..runs(uid, namespace)
    }
}

fn pending(uid: &str, namespace: &str) -> Subject {
    Subject {
        stage: Stage::Pending,
        ..runs(uid, namespace)
    }
}

/// A pod of `a` that is marked because its budget was used up.
fn demoted(uid: &str) -> Subject {
    Subject {
        marks: over("a"),
        ..runs(uid, "a")
    }
}

fn evicted_at(seconds: i64) -> Marks {
    Marks {
        evict_at: Some(at(seconds)),
        ..over("a")
    }
}

fn over(budget: &str) -> Marks {
    Marks {
        over: Some(budget.to_owned()),
        ..Marks::default()
    }
}

fn short(plan: &Plan) -> Vec<(&str, &What)> {
    let actions = plan.actions.iter();
    actions
        .map(|action| (action.pod.id.uid.as_str(), &action.what))
        .collect()
}

#[test]
fn pods_of_a_used_up_budget_are_demoted_whatever_it_does_with_new_ones() {
    for when in ["Demote", "ThrottleNew"] {
        let mut world = World::default()
            .exhausted("a", when)
            .within("b", when)
            .pod(runs("one", "a"))
            .pod(pending("pending", "a"))
            .pod(runs("other", "b"))
            .pod(runs("unbudgeted", "c"));
        let plan = world.plan_at(0);
        let marked = What::Mark(over("a"));
        let both = [("one", &marked), ("pending", &marked)];
        assert_eq!(short(&plan), both, "{when}");
        let say = &plan.actions[0].say;
        assert_eq!(say.reason, "OverBudget");
        assert_eq!(say.severity, Severity::Warning);
        let message = &say.message;
        assert!(message.contains("budget a is used up"), "{message}");
        world.settles(&plan);
    }
}

#[test]
fn back_in_budget_a_pod_loses_its_mark_and_one_of_the_low_class_is_restored() {
    let low = Subject {
        low_class: true,
        ..demoted("low")
    };
    let world = World::default().within("a", "Demote");
    let mut world = world.pod(demoted("demoted")).pod(low);
    let plan = world.plan_at(0);
    let restored = Marks {
        restored: true,
        ..Marks::default()
    };
    let (unmarked, restored) = (What::Mark(Marks::default()), What::Mark(restored));
    assert_eq!(short(&plan), [("demoted", &unmarked), ("low", &restored)]);
    for action in &plan.actions {
        assert_eq!(action.say.reason, "BackInBudget");
    }
    world.settles(&plan);
    // And over budget again.
    let mut world = world.exhausted("a", "Demote");
    let plan = world.plan_at(0);
    let marked = What::Mark(over("a"));
    assert_eq!(short(&plan), [("demoted", &marked), ("low", &marked)]);
    world.settles(&plan);
}

#[test]
fn a_pod_whose_budget_is_gone_or_ambiguous_is_not_held_to_it() {
    let gone = World::default().pod(demoted("demoted"));
    let mut ambiguous = gone.clone().exhausted("a", "Demote");
    ambiguous.insert(json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": "z"},
        "spec": {"amount": "1h", "namespaces": {"names": ["a"]}}, "status": {"exhausted": true},
    }));
    for world in [gone, ambiguous] {
        let unmarked = What::Mark(Marks::default());
        assert_eq!(short(&world.plan_at(0)), [("demoted", &unmarked)]);
    }
}

#[test]
fn nothing_is_done_to_pods_of_a_namespace_that_is_not_known_and_to_pods_that_end() {
    let mut ending = runs("ending", "a");
    ending.ending = true;
    let world = World::default()
        .exhausted("a", "Demote")
        .pod(runs("early", "just-made"))
        .pod(ending);
    assert_eq!(world.plan_at(0), Plan::default());
}

#[test]
fn what_runs_is_evicted_when_its_grace_is_over_and_not_before() {
    let mut world = World::evicts().pod(pending("pending", "a"));
    let told = world.plan_at(0);
    let (placed, pending) = (What::Mark(evicted_at(600)), What::Mark(over("a")));
    assert_eq!(short(&told), [("one", &placed), ("pending", &pending)]);
    let message = &told.actions[0].say.message;
    assert!(message.contains(&at(600).to_string()), "{message}");
    world.does(&told);

    let early = world.plan_at(599);
    assert_eq!((short(&early), early.next), (vec![], Some(at(600))));
    let due = world.plan_at(600);
    assert_eq!(short(&due), [("one", &What::Evict)]);
    assert_eq!(due.actions[0].say.reason, "BudgetEviction");
    // The announced time holds, whatever the budget says later.
    world = world.grace("a", 10);
    assert_eq!(short(&world.plan_at(599)), []);
    world.does(&due);
    assert_eq!(world.plan_at(601), Plan::default());
}

#[test]
fn budget_that_comes_back_in_time_calls_the_eviction_off() {
    let mut world = World::evicts();
    let told = world.plan_at(0);
    world.does(&told);
    let mut world = world.within("a", "EvictWithGrace");
    let back = world.plan_at(700);
    assert_eq!(short(&back), [("one", &What::Mark(Marks::default()))]);
    world.does(&back);
    let world = world.exhausted("a", "EvictWithGrace").grace("a", 600);
    let anew = What::Mark(evicted_at(1400));
    assert_eq!(short(&world.plan_at(800)), [("one", &anew)]);
}

#[test]
fn a_pod_that_was_created_over_budget_is_not_evicted_as_soon_as_it_runs() {
    let mut low = runs("low", "a");
    low.low_class = true;
    let world = World::default().exhausted("a", "EvictWithGrace").pod(low);
    let soon = What::Mark(evicted_at(60));
    assert_eq!(short(&world.plan_at(0)), [("low", &soon)]);
}

#[test]
fn pods_wait_until_there_is_budget_again_and_the_oldest_are_let_in_first() {
    let world = World::default()
        .exhausted("a", "ThrottleNew")
        .pod(waits("younger", "a", 7))
        .pod(waits("older", "a", 3));
    assert_eq!(world.plan_at(0), Plan::default());
    let world = world.within("a", "ThrottleNew");
    let plan = world.plan_at(0);
    let both = [("older", &What::Open), ("younger", &What::Open)];
    assert_eq!(short(&plan), both);
    assert_eq!(plan.actions[0].say.reason, "BackInBudget");
    // Waiting pods are also admitted when the budget no longer makes new pods wait, or is deleted.
    let mut gone = world.clone();
    gone.budgets.clear();
    for world in [world.exhausted("a", "Demote"), gone] {
        assert_eq!(short(&world.plan_at(0)).len(), 2);
    }
}

#[test]
fn no_more_are_let_in_than_what_remains_can_pay_for_a_while() {
    let remaining = |seconds: i64| json!({"exhausted": false, "remainingSeconds": seconds});
    let mut world = World::default().budget("a", "ThrottleNew", remaining(900));
    for (uid, created) in [("1", 1), ("2", 2), ("3", 3), ("4", 4)] {
        world = world.pod(waits(uid, "a", created));
    }
    let mut two_cards = world.clone();
    two_cards.pods[1].cards = 2;
    let opened = |world: &World| {
        let plan = world.plan_at(0);
        let pods = plan.actions.iter();
        pods.map(|action| action.pod.id.uid.to_string())
            .collect::<String>()
    };
    assert_eq!(opened(&world), "123");
    assert_eq!(opened(&two_cards), "12");
    // Pods that run or are about to run count too.
    let busy = world.clone().pod(pending("0", "a"));
    assert_eq!(opened(&busy), "12");
    // A single pod may use up the rest, but not beside others.
    let poor = world.clone().budget("a", "ThrottleNew", remaining(1));
    assert_eq!(opened(&poor), "1");
    assert_eq!(opened(&poor.pod(runs("0", "a"))), "");
    // Expensive cards use more.
    world.budgets.get_mut("a").unwrap().spec.prices =
        serde_json::from_value(json!([{"model": "X*", "price": "2.5"}])).unwrap();
    assert_eq!(opened(&world), "1");
}

#[test]
fn what_a_parent_has_left_counts_for_all_its_children() {
    let remaining = json!({"exhausted": false, "remainingSeconds": 100_000});
    let mut world = World::default()
        .budget("a", "ThrottleNew", remaining.clone())
        .budget("b", "ThrottleNew", remaining);
    world.insert(json!({
        "apiVersion": "gpushare.io/v1alpha1", "kind": "GpuBudget", "metadata": {"name": "all"},
        "spec": {"amount": "1h"}, "status": {"exhausted": false, "remainingSeconds": 600},
    }));
    for child in ["a", "b"] {
        let budget = world.budgets.get_mut(child).unwrap();
        budget.spec.parent = Some("all".to_owned());
        let running = runs(&format!("{child}-runs"), child);
        let waiting = waits(&format!("{child}-waits"), child, 1);
        world = world.pod(running).pod(waiting);
    }
    // 600 seconds are promised to running pods.
    assert_eq!(short(&world.plan_at(0)), []);
    let parent = world.budgets.get_mut("all").unwrap();
    parent.status.as_mut().unwrap().remaining_seconds = Some(900);
    assert_eq!(short(&world.plan_at(0)), [("a-waits", &What::Open)]);
}
