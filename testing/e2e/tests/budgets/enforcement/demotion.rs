//! Pods whose budget is exhausted make room for others, and are restored when there is budget again.

use e2e::manifest::{aliyun, pod};
use e2e::wait;

use super::{ASKED, OVER, RESTORED, Team};
use crate::SHARED;

#[test]
fn a_pod_whose_budget_ends_is_demoted_and_goes_for_one_of_the_same_priority_from_a_full_card() {
    let _timekeeper = SHARED.timekeeper();
    let (spent, paid) = (Team::new("Demote", None), Team::new("Demote", None));
    paid.runs(&pod("other-card", aliyun(8)));
    spent.runs(&pod("runs", aliyun(8)));
    let before = spent.pod("runs").unwrap()["spec"]["priority"].clone();
    // While it is within its budget, the pod stays; a pod of equal priority does not preempt it.
    paid.creates(&pod("pays", aliyun(8)));
    paid.wait_unschedulable("pays");
    assert!(spent.is_left("runs"));
    spent.exhaust(true);
    assert_eq!(
        spent.wait_mark("runs", OVER, true),
        Some(spent.name.clone())
    );
    let said = spent.wait_event("runs", "is used up");
    assert!(said.contains("the first to go"), "{said}");
    let pays = SHARED.wait_running(&paid.name, "pays");
    assert!(!spent.is_left("runs"));
    spent.wait_event("runs", "preempted by pod");
    assert_eq!(pays["spec"]["priority"], before);
    spent.leave();
    paid.leave();
}

#[test]
fn coming_back_into_budget_restores_pods_also_those_that_were_created_over_it() {
    let _timekeeper = SHARED.timekeeper();
    let (team, paid) = (Team::new("Demote", None), Team::new("Demote", None));
    paid.runs(&pod("other-card", aliyun(8)));
    team.runs(&pod("ordinary", aliyun(4)));
    team.exhaust(true);
    SHARED.wait_for_class(&team.name, "gpushare-over-budget");
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
    // kube-scheduler would evict the pod with low priority. It asks the extender, which lets no pod go.
    let asked = SHARED.world.metric(ASKED);
    paid.creates(&pod("pays", aliyun(4)));
    wait::until("the scheduler to ask whom to evict", || {
        if SHARED.world.metric(ASKED) > asked {
            Ok(())
        } else {
            Err(asked)
        }
    });
    assert!(team.is_left("low") && team.is_left("ordinary"));
    team.exhaust(true);
    SHARED.wait_running(&paid.name, "pays");
    team.leave();
    paid.leave();
}
