//! Prioritize: the node that the policy prefers, alone at the top.
//!
//! kube-scheduler chooses at random among equal scores and adds its own; only a single best node with a
//! weight above the sum of all others makes the choice ours.

use gpushare_books::Books;
use gpushare_core::Steps;
use gpushare_kube::convert::PodFacts;

use super::wire::{Candidates, HostPriority};

/// The highest score that kube-scheduler understands from an extender.
const BEST: i64 = 10;

pub(super) fn prioritize<'a>(
    books: &Books,
    pod: &PodFacts,
    candidates: &'a Candidates<'a>,
) -> Vec<HostPriority<'a>> {
    let best = best(books, pod, candidates);
    let score = |host: &str| match &best {
        Best::One(best) => i64::from(*best == host) * BEST,
        Best::WithoutCards => i64::from(!books.packing().has_cards(host)) * BEST,
        Best::Any => 0,
    };
    let scored = candidates.names().map(|host| HostPriority {
        host,
        score: score(host),
    });
    // A node that is left out counts as 0; otherwise thousands of zeros would be written and read.
    scored.filter(|scored| scored.score > 0).collect()
}

/// What packing prefers.
enum Best<'a> {
    One(&'a str),
    /// The pod needs no card, and should leave nodes with cards to other pods.
    WithoutCards,
    Any,
}

fn best<'a>(books: &'a Books, pod: &PodFacts, candidates: &'a Candidates<'a>) -> Best<'a> {
    let packing = books.packing();
    let steps = Steps::for_request();
    let ask = match &pod.ask {
        Ok(ask) => ask.as_ref(),
        Err(_) => return Best::Any,
    };
    if ask.is_none() && candidates.names().any(|name| !packing.has_cards(name)) {
        return Best::WithoutCards;
    }
    if let Some(claimed) = books.claimed_node(pod, candidates.membership(), &steps) {
        return Best::One(claimed);
    }
    if let Some(best) = books.nodes().best(ask, pod.host, candidates.membership()) {
        return Best::One(best);
    }
    // Packing may see no room although the ledger does: its view of CPU and memory may be stale.
    let Some(ask) = ask else {
        return Best::Any;
    };
    let search = books.ledger().search(ask, &steps);
    let left = |name: &'a str| Some((books.ledger().left(name, &pod.uid, &search)?, name));
    let tightest = candidates.names().filter_map(left).min();
    tightest.map_or(Best::Any, |(_, name)| Best::One(name))
}
