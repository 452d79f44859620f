//! The reason in full sentences.

use std::collections::BTreeSet;

use gpushare_core::names::BUDGET_GATE;
use gpushare_core::why::Shortage as CardShortage;
use gpushare_core::{NodeName, Why};
use gpushare_kube::totals;

use super::node::Obstacle;
use super::surroundings::Shortage;
use super::verdict::{Block, Group, Situation};

/// How many further groups of nodes the paragraph gives reasons for.
const MOST_OTHERS: usize = 3;

pub(super) fn of_block(situation: &Situation, block: &Block, exists: bool) -> String {
    let scheduler = situation.pod.scheduler();
    match block {
        Block::Invalid(violations) => {
            format!("The pod's request is not valid, so no node can take it: {violations}.")
        }
        Block::Gate(gate) if gate == BUDGET_GATE => of_budget(situation),
        Block::Gate(gate) => format!(
            "The pod has the scheduling gate {gate}: no scheduler places the pod until the gate's owner removes it."
        ),
        Block::NoScheduler => format!(
            "The pod waits for a scheduler named {scheduler}, and nothing has been seen of one: it has placed no pod and said nothing about this one."
        ),
        Block::NoSuchNode(node) if exists => format!(
            "The pod is tied to the node {node} by spec.nodeName, and there is no such node."
        ),
        Block::NoSuchNode(node) => {
            format!("spec.nodeName names {node}, and there is no such node.")
        }
        Block::PastScheduler(node) => format!(
            "spec.nodeName ties the pod to {node}, past kube-scheduler and gpushare: no card was chosen for it, so the node's agent does not start it."
        ),
        Block::NoPriorityClass(name) => {
            format!("The API server would refuse the pod: there is no priority class {name}.")
        }
        Block::NoVolumeClaim(name) => {
            format!("The pod waits for the persistent volume claim {name}, which does not exist.")
        }
        Block::Quota(shortage) => of_quota(shortage),
    }
}

fn of_budget(situation: &Situation) -> String {
    let Some(budget) = &situation.around.budget else {
        return format!(
            "The pod waits because the GPU budget of its namespace is used up (scheduling gate {BUDGET_GATE})."
        );
    };
    let used = budget.used.as_deref().map(|used| format!(" ({used} used)"));
    let resets = budget
        .resets
        .as_deref()
        .map(|at| format!(" A new period begins at {at}."));
    format!(
        "The pod waits because the GPU budget {} of its namespace is used up{}.{}",
        budget.name,
        used.unwrap_or_default(),
        resets.unwrap_or_default()
    )
}

fn of_quota(shortage: &Shortage) -> String {
    let Shortage { quota, counted, .. } = shortage;
    let written = |amount| totals::text(&shortage.resource, amount);
    format!(
        "The API server refuses the pod by the quota {quota}: it needs {} of {counted}, and {} of {} are used.",
        written(shortage.needed),
        written(shortage.used),
        written(shortage.hard),
    )
}

pub(super) fn of_nodes(situation: &Situation, groups: &[Group]) -> String {
    let nodes: usize = groups.iter().map(|group| group.nodes.len()).sum();
    let Some((first, others)) = groups.split_first() else {
        return "No node can take the pod: there are no nodes.".to_owned();
    };
    let all = match nodes {
        1 => "The only node cannot take the pod".to_owned(),
        _ => format!("None of {nodes} nodes can take the pod now"),
    };
    let (nearest, reason) = (named(first), first.reason());
    let mut text = match (others.len(), first.nodes.len()) {
        (0, _) => format!("{all}: {reason}."),
        (_, 1) => format!("{all}. Nearest is {nearest}: {reason}."),
        _ => format!("{all}. Nearest are {nearest}: {reason}."),
    };
    let beside = [
        models(situation, first),
        fragmentation(situation, groups),
        past_scheduler(situation, first),
    ];
    for sentence in beside.iter().flatten() {
        text.push(' ');
        text.push_str(sentence);
    }
    let told: Vec<String> = others
        .iter()
        .take(MOST_OTHERS)
        .map(|group| format!("{}: {}", named(group), group.reason()))
        .collect();
    if !told.is_empty() {
        text.push_str(" The others: ");
        text.push_str(&told.join("; "));
        text.push('.');
    }
    let claims: Vec<&str> = first
        .nodes
        .iter()
        .take(MOST_OTHERS)
        .flat_map(|node| situation.cluster.claims_on(node))
        .collect();
    if !claims.is_empty() {
        text.push_str(" Room there is kept for pods that preempt others: ");
        text.push_str(&claims.join(", "));
        text.push('.');
    }
    text
}

fn named(group: &Group) -> String {
    match group.nodes.as_slice() {
        [] => "no node".to_owned(),
        [one] => one.to_string(),
        [one, two] => format!("{one} and {two}"),
        [one, ..] => format!("{one} and {} more", group.nodes.len() - 1),
    }
}

/// Which models the nodes have, if the pod wants others.
fn models(situation: &Situation, group: &Group) -> Option<String> {
    let excluded = |obstacle: &Obstacle| matches!(obstacle, Obstacle::Cards(Why::Blocked { by, .. }) if by.choice);
    group.obstacles.iter().any(excluded).then_some(())?;
    let nodes = group
        .nodes
        .iter()
        .filter_map(|node| situation.cluster.ledger().node(node.as_str()));
    let models: BTreeSet<String> = nodes
        .flat_map(|node| node.cards().map(|card| card.card.model.to_string()))
        .collect();
    let models: Vec<String> = models.into_iter().collect();
    (!models.is_empty()).then(|| format!("The cards there are of the model {}.", models.join(", ")))
}

/// Names pods that use up totals without holding a card, so that totals run out while cards are free.
fn past_scheduler(situation: &Situation, group: &Group) -> Option<String> {
    let lacking: Vec<&String> = group
        .obstacles
        .iter()
        .filter_map(|obstacle| match obstacle {
            Obstacle::Total { resource, .. } => Some(resource),
            _ => None,
        })
        .collect();
    let nodes = group.nodes.iter().take(MOST_OTHERS);
    let pods = nodes.flat_map(|node| situation.cluster.on(node));
    let takers: Vec<String> = pods
        .filter(|(_, holder)| holder.past_scheduler)
        .filter_map(|(_, holder)| {
            let taken = |resource: &&&String| holder.needs.get(**resource).is_some_and(|n| *n > 0);
            let resource = lacking.iter().find(taken)?;
            let amount = totals::text(resource, *holder.needs.get(*resource)?);
            Some(format!(
                "{}/{} takes {amount} of {resource} on {}",
                holder.namespace, holder.name, holder.node
            ))
        })
        .collect();
    let rest = match takers.len() {
        0 => return None,
        1 => {
            "no card was chosen for it, because its spec.nodeName was written by hand; it gets none, so delete it"
        }
        _ => {
            "no card was chosen for them, because their spec.nodeName was written by hand; they get none, so delete them"
        }
    };
    let takers = takers.join("; ");
    Some(format!("The cards may be free: {takers}, and {rest}."))
}

/// Says so if enough is free in total, but not on any single card.
fn fragmentation(situation: &Situation, groups: &[Group]) -> Option<String> {
    let lacking = |group: &Group| match group.obstacles.as_slice() {
        [Obstacle::Cards(Why::Blocked { by, short, .. })]
            if by.room && !by.choice && !by.health =>
        {
            Some(short.clone())
        }
        _ => None,
    };
    let CardShortage::Amount(lack) = groups.iter().find_map(lacking)? else {
        return None;
    };
    let ledger = situation.cluster.ledger();
    let nodes = groups.iter().filter(|group| lacking(group).is_some());
    let mut cards: Vec<(u64, &NodeName, u32)> = Vec::new();
    for node in nodes.flat_map(|group| &group.nodes) {
        let Some(view) = ledger.node(node.as_str()) else {
            continue;
        };
        for card in view.cards().filter(|card| card.card.healthy) {
            let class = ledger.classes().get(&card.card.class);
            let named = class.map(|class| class.named(&card.free()));
            let free = named.and_then(|named| named.get(&*lack.dimension).copied());
            cards.push((free.unwrap_or(0), node, card.card.index));
        }
    }
    let sum: u64 = cards.iter().map(|(free, _, _)| free).sum();
    let (largest, node, index) = cards.iter().max_by_key(|(free, _, _)| *free)?;
    (sum >= lack.needed && cards.len() > 1).then(|| {
        format!(
            "{sum} {} of {} are free in all, but scattered over {} cards: the most is {largest} on card {index} of {node}.",
            lack.unit,
            lack.dimension,
            cards.len()
        )
    })
}
