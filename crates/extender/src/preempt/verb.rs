//! The preempt verb: kube-scheduler names nodes and the pods that it would evict there, and then evicts exactly the
//! pods in the answer.
//!
//! kube-scheduler chooses victims by the node's totals, so the room that they free may be spread over several cards.
//! The verb therefore chooses the victims again, card by card. Victims that hold no card stay in the answer, because
//! they are evicted for something that gpushare does not see. Of several nodes, only the best one is in the answer,
//! because kube-scheduler cannot compare nodes by cards and budgets. The claim on the room is recorded on the pod
//! before the answer is given, so that no pod is evicted for room that another pod then takes.

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use gpushare_books::preemptions::{Outcome, Proposal, Terms};
use gpushare_books::{Books, KnownPod};
use gpushare_core::preempt::{Cost, Evictor};
use gpushare_core::{NodeName, PodUid, Steps};
use gpushare_kube::budgets::Budgets;
use gpushare_kube::convert::PodFacts;

use super::wire::{Offer, PreemptionArgs, PreemptionResult};
use super::{beside, now, undecided};
use crate::Extender;
use crate::routes::{error_response, json};
use gpushare_kube::PodRef;

pub(crate) async fn answer_preempt(extender: Extender, headers: HeaderMap, body: Body) -> Response {
    let parsed = extender.parse(&headers, body, PreemptionArgs::parse).await;
    let args = match parsed {
        Ok(args) => args,
        Err(refusal) => return refusal,
    };
    match extender.correct(args).await {
        Ok(result) => json(StatusCode::OK, &result),
        // This must be an error. An answer without nodes would mean that preemption cannot help.
        Err(reason) => {
            let message = format!("gpushare: {reason}");
            error_response(StatusCode::SERVICE_UNAVAILABLE, message)
        }
    }
}

/// What to answer for a node, if it is chosen.
#[derive(Debug)]
struct Correction {
    proposal: Proposal,
    /// In the order of the answer.
    victims: Vec<PodUid>,
}

impl Extender {
    async fn correct(&self, args: PreemptionArgs) -> Result<PreemptionResult, String> {
        let term = self.open_term().await?;
        if !self.0.config.preempt {
            return Ok(PreemptionResult::default());
        }
        let facts = PodFacts::new(&args.pod, &self.0.dialects);
        match &facts.ask {
            Ok(Some(_)) if facts.preemption.preempts => {}
            // The pod asks for no card, so kube-scheduler's choice stands.
            Ok(None) => return Ok(unchanged(args.nodes)),
            Ok(Some(_)) | Err(_) => return Ok(PreemptionResult::default()),
        }
        let pod = PodRef {
            uid: facts.uid,
            namespace: facts.namespace,
            name: facts.name,
        };
        let known = self.make_known(&pod).await;
        known.map_err(|error| error.to_string())?;
        let Some(preemptor) = self.preemptor(&pod) else {
            return Ok(PreemptionResult::default());
        };
        if let Some(result) = under_way(&self.0.books.read(), &preemptor, &args.nodes) {
            return result;
        }
        let budgets = self.read_budgets().await?;
        let (extender, asking, nodes) = (self.clone(), preemptor.clone(), args.nodes);
        let work = move || {
            let books = extender.0.books.read();
            correct(&books, &asking, &nodes, &budgets)
        };
        let best = beside(work).await??;
        let Some(Correction { proposal, victims }) = best else {
            self.0.metrics.preempted("no_victims");
            return Ok(PreemptionResult::default());
        };
        let begun = self.take_up(&preemptor, &proposal, Evictor::Scheduler, term);
        let first = begun.ok_or("things have changed meanwhile; try again")?;
        match self.carry_out(pod, first, term).await {
            Ok(Some(Outcome::Done)) => Ok(PreemptionResult::on(proposal.node.as_str(), victims)),
            Ok(Some(Outcome::Gone)) => Ok(PreemptionResult::default()),
            _ => Err("the room could not be claimed; try again".to_owned()),
        }
    }
}

fn unchanged(nodes: BTreeMap<String, Offer>) -> PreemptionResult {
    let mut result = PreemptionResult::default();
    for (node, offer) in nodes {
        result.add(&node, offer.victims, offer.violations);
    }
    result
}

/// The answer for a pod that already has a claim. The pod preempts on no other node: once the claim is written, the
/// answer names only what the scheduler still needs to evict on the claim's node.
fn under_way(
    books: &Books,
    preemptor: &KnownPod,
    nodes: &BTreeMap<String, Offer>,
) -> Option<Result<PreemptionResult, String>> {
    let claim = books.preemptions().claim(&preemptor.pod.uid)?;
    if !books.preemptions().has_written_claim(&preemptor.pod.uid) {
        return Some(Err("the room is being claimed; try again".to_owned()));
    }
    let offer = nodes.get(claim.node().as_str());
    let sensible = |offer: &&Offer| {
        offer.violations == 0 && !knows_elsewhere(books, &offer.victims, claim.node())
    };
    let Some(offer) = offer.filter(sensible) else {
        return Some(Ok(PreemptionResult::default()));
    };
    let left = claim.victims.iter().filter(|victim| {
        let known = books.pods().get(victim.as_str());
        !offer.victims.contains(victim)
            && known.is_some_and(|known| known.preemption.ends_by.is_none())
    });
    let victims: Vec<PodUid> = offer.victims.iter().chain(left).cloned().collect();
    let result = if outranks_all(books, preemptor, &victims) {
        PreemptionResult::on(claim.node().as_str(), victims)
    } else {
        PreemptionResult::default()
    };
    Some(Ok(result))
}

/// The cheapest of these nodes, with the pods to evict there; an error if it is not known whether there is one.
fn correct(
    books: &Books,
    preemptor: &KnownPod,
    nodes: &BTreeMap<String, Offer>,
    budgets: &Budgets,
) -> Result<Option<Correction>, String> {
    let mut best: Option<(Cost, Correction)> = None;
    let (steps, cut) = (Steps::for_request(), Cell::new(false));
    for (name, offer) in nodes {
        let node = NodeName::new(name);
        let propose = |terms: &Terms| {
            let nodes = std::slice::from_ref(&node);
            let looked = books
                .situation()
                .propose(preemptor, nodes, terms, None, &steps, now());
            cut.set(cut.get() || looked.cut);
            looked.best
        };
        let correction = correct_node(books, preemptor, &node, offer, budgets, propose);
        let Some((cost, correction)) = correction else {
            continue;
        };
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, correction));
        }
    }
    if best.is_none() && cut.get() {
        return Err(undecided(steps.given()));
    }
    Ok(best.map(|(_, correction)| correction))
}

fn correct_node(
    books: &Books,
    preemptor: &KnownPod,
    node: &NodeName,
    offer: &Offer,
    budgets: &Budgets,
    propose: impl Fn(&Terms) -> Option<Proposal>,
) -> Option<(Cost, Correction)> {
    if knows_elsewhere(books, &offer.victims, node) {
        return None;
    }
    let on_cards = |pod: &&PodUid| {
        let booking = books.ledger().booking(pod.as_str());
        booking.is_some_and(|booking| booking.node == *node)
    };
    let (named, others): (Vec<&PodUid>, Vec<&PodUid>) = offer.victims.iter().partition(on_cards);
    // Only pods on cards are checked against disruption budgets here. For the others there is only kube-scheduler's
    // count of violations, which covers all the pods that it named.
    if !others.is_empty() && offer.violations > 0 {
        return None;
    }
    let propose = |going: HashSet<PodUid>| {
        let budgets = budgets.clone();
        propose(&Terms { budgets, going })
    };
    let free = propose(HashSet::new());
    let free = free.filter(|free| {
        let leaving = free.victims.iter().chain(others.iter().copied());
        books
            .packing()
            .has_host_room_without(node, leaving, preemptor.host)
    });
    let proposal = if let Some(free) = free {
        free
    } else {
        // Without the named pods on cards, CPU or memory would not suffice. So they are evicted in any case, and
        // further pods only in addition.
        let mut beside = propose(named.iter().copied().cloned().collect())?;
        beside.victims.extend(named.iter().copied().cloned());
        beside
    };
    let on_cards = &proposal.victims;
    if !books.situation().may_all_go(on_cards, budgets) || !outranks_all(books, preemptor, on_cards)
    {
        return None;
    }
    let cost = books.situation().cost_of(node, on_cards);
    let victims = on_cards.iter().chain(others.iter().copied()).cloned();
    let mut victims: Vec<PodUid> = victims.collect();
    let rank = |pod: &PodUid| books.pods().get(pod.as_str()).map(|known| known.rank);
    victims.sort_by_key(|pod| std::cmp::Reverse(rank(pod)));
    Some((cost, Correction { proposal, victims }))
}

/// Whether one of these is booked on another node, so that its eviction would not help on this one.
fn knows_elsewhere(books: &Books, victims: &[PodUid], node: &NodeName) -> bool {
    victims.iter().any(|victim| {
        let booking = books.ledger().booking(victim.as_str());
        booking.is_some_and(|booking| booking.node != *node)
    })
}

/// Whether every one of these that we know has a lower rank.
fn outranks_all(books: &Books, preemptor: &KnownPod, victims: &[PodUid]) -> bool {
    victims.iter().all(|victim| {
        let known = books.pods().get(victim.as_str());
        known.is_none_or(|known| known.rank < preemptor.rank)
    })
}
