//! Plans: changes after which the pod would be scheduled. Every plan is tried on a copy of the cluster, with the rules
//! that decide there, before it is suggested to the user.

use std::sync::Arc;

use gpushare_core::NodeName;

use super::change::{Act, Change};
use super::node::Obstacle;
use super::repair;
use super::verdict::{Block, Group, Situation, Verdict};

/// Longer plans are discarded.
const MOST_CHANGES: usize = 8;
/// How many groups of nodes to make plans for.
const MOST_GROUPS: usize = 3;
const MOST_PLANS: usize = 5;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// Afterwards the pod fits, as far as is known. Otherwise the plan is a step in the right direction.
    pub(super) certain: bool,
}

/// Plans for this verdict, the best first.
pub(super) fn plans(situation: &Situation, verdict: &Verdict) -> Vec<Plan> {
    let mut plans = Vec::new();
    match verdict {
        Verdict::Fits(_) => {}
        Verdict::Blocked(block) => {
            for change in repair::of_block(situation, block) {
                plans.extend(carried_through(situation.clone(), change));
            }
        }
        Verdict::Nowhere(groups) => {
            for group in groups.iter().take(MOST_GROUPS) {
                plans.extend(of_group(situation, group));
            }
        }
    }
    sorted(plans)
}

fn of_group(situation: &Situation, group: &Group) -> Vec<Plan> {
    let (Some(node), Some(obstacle)) = (group.nodes.first(), group.obstacles.first()) else {
        return Vec::new();
    };
    let alone = Situation {
        cluster: Arc::new(situation.cluster.only(node)),
        pod: situation.pod.clone(),
        around: situation.around.clone(),
        steps: situation.steps.clone(),
    };
    let changes = repair::of_obstacle(&alone, node, obstacle);
    changes
        .into_iter()
        .filter_map(|change| carried_through(alone.clone(), change))
        .collect()
}

/// The change and all further changes that are needed after it.
fn carried_through(mut situation: Situation, first: Change) -> Option<Plan> {
    let mut changes = vec![first];
    loop {
        let last = changes.last()?;
        let before = situation.verdict();
        if !last.apply(&mut situation).ok()? {
            return Some(Plan {
                changes,
                certain: false,
            });
        }
        let verdict = situation.verdict();
        // Asking for no card at all does not correct a mistake in the request.
        if matches!(before, Verdict::Blocked(Block::Invalid(_)))
            && matches!(situation.pod.facts.ask, Ok(None))
        {
            return None;
        }
        if let Verdict::Fits(_) = verdict {
            return Some(Plan {
                changes,
                certain: true,
            });
        }
        // Discard changes without effect and plans that are too long.
        if verdict == before || changes.len() == MOST_CHANGES {
            return None;
        }
        let next = next(&situation, &verdict)?;
        changes.push(next);
    }
}

fn next(situation: &Situation, verdict: &Verdict) -> Option<Change> {
    let candidates = match verdict {
        Verdict::Fits(_) => return None,
        Verdict::Blocked(block) => repair::of_block(situation, block),
        Verdict::Nowhere(groups) => {
            let group = groups.first()?;
            let obstacle: &Obstacle = group.obstacles.first()?;
            let node: &NodeName = group.nodes.first()?;
            repair::of_obstacle(situation, node, obstacle)
        }
    };
    candidates.into_iter().find(|candidate| {
        let mut tried = situation.clone();
        candidate.apply(&mut tried).is_ok_and(|known| known) && tried.verdict() != *verdict
    })
}

fn sorted(mut plans: Vec<Plan>) -> Vec<Plan> {
    plans.sort_by_key(|plan| {
        let effort: u32 = plan.changes.iter().map(|change| effort(&change.act)).sum();
        (!plan.certain, plan.changes.len(), effort)
    });
    // If any plan is certain, leave out the uncertain ones.
    if plans.iter().any(|plan| plan.certain) {
        plans.retain(|plan| plan.certain);
    }
    let mut kept: Vec<Plan> = Vec::new();
    for plan in plans {
        let known = kept.iter().any(|other| other.changes == plan.changes);
        if !known && kept.len() < MOST_PLANS {
            kept.push(plan);
        }
    }
    kept
}

/// Changing the user's own pod is preferred over changing what belongs to others.
fn effort(act: &Act) -> u32 {
    match act {
        Act::Pod(_) => 0,
        Act::Uncordon(_) | Act::Label { .. } => 1,
        Act::RaiseQuota { .. } => 2,
        Act::End(_) => 3,
        Act::Untaint { .. } => 4,
        Act::Operate { .. } => 5,
    }
}
