//! Pods whose budget is exhausted make room for others, and are restored when there is budget again.

use e2e::manifest::{aliyun, pod};
use e2e::{Kubectl, Team, wait};

use super::{ASKED, OVER, RESTORED, team};
use crate::SHARED;

/// Two teams, of which the second one has one of the two cards.
fn teams() -> (Team, Team) {
    let (one, other) = (team("Demote", None), team("Demote", None));
    other.runs(&pod("other-card", aliyun(8)));
    (one, other)
}

#[test]
fn a_pod_whose_budget_ends_is_demoted_and_goes_for_one_of_the_same_priority_from_a_full_card() {
    let _timekeeper = SHARED.timekeeper();
    let (spent, paid) = teams();
    let runs = spent.runs(&pod("runs", aliyun(8)));
    // While it is within its budget, the pod stays; a pod of equal priority does not preempt it.
    paid.apply(&pod("pays", aliyun(8)));
    paid.wait_unschedulable("pays");
    assert!(spent.is_left("runs"));
    spent.exhaust(true);
    assert_eq!(
        spent.wait_mark("runs", OVER, true),
        Some(spent.name.clone())
    );
    let said = spent.wait_event("runs", "is used up");
    assert!(said.contains("evicted first"), "{said}");
    let pays = paid.wait_running("pays");
    assert!(!spent.is_left("runs"));
    spent.wait_event("runs", "preempted by pod");
    assert_eq!(pays["spec"]["priority"], runs["spec"]["priority"]);
    spent.leave();
    paid.leave();
}

#[test]
fn coming_back_into_budget_restores_pods_also_those_that_were_created_over_it() {
    let _timekeeper = SHARED.timekeeper();
    let (team, paid) = teams();
    team.runs(&pod("ordinary", aliyun(4)));
    team.exhaust(true);
    team.wait_for_class("gpushare-over-budget");
    team.runs(&pod("low", aliyun(4)));
    for pod in ["low", "ordinary"] {
        team.wait_mark(pod, OVER, true);
    }
    team.exhaust(false);
    for pod in ["low", "ordinary"] {
        team.wait_mark(pod, OVER, false);
        team.wait_event(pod, "has something left again");
    }
    team.wait_mark("low", RESTORED, true);
    assert_eq!(team.annotation("ordinary", RESTORED).unwrap(), None);
    // kube-scheduler would evict the pod with low priority. It asks the extender, which allows no eviction.
    let asked = SHARED.world.metric(ASKED);
    paid.apply(&pod("pays", aliyun(4)));
    let now = || SHARED.world.metric(ASKED);
    wait::until_seen("the scheduler to ask whom to evict", now, |now| {
        *now > asked
    });
    assert!(team.is_left("low") && team.is_left("ordinary"));
    team.exhaust(true);
    paid.wait_running("pays");
    team.leave();
    paid.leave();
}
