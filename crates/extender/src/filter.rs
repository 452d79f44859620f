//! Filter: which nodes have room for the pod on their cards, and why the others do not.

use std::cell::RefCell;

use gpushare_books::Books;
use gpushare_books::reasons::Refusal;
use gpushare_core::{Steps, Why};
use gpushare_kube::convert::PodFacts;

use crate::config::Offer;

use super::answer::Answer;
use super::wire::Candidates;

pub(super) fn filter<'a>(
    books: &Books,
    pod: &PodFacts,
    candidates: &'a Candidates<'a>,
    offer: Offer,
) -> Answer<'a> {
    if let Err(missing) = books.ready() {
        return not_ready(candidates, missing);
    }
    // One limit for the whole request, however many nodes it names.
    let steps = Steps::for_request();
    if offer == Offer::Best
        && let Some(best) = best(books, pod, candidates, &steps)
    {
        return Answer::offering_only(candidates, best);
    }
    let ask = match &pod.ask {
        Ok(Some(ask)) => ask,
        Ok(None) => return Answer::offering_all(candidates),
        Err(violations) => {
            return Answer::refusing_all(candidates, violations, Refusal::InvalidRequest);
        }
    };
    let search = books.ledger().search(ask, &steps);
    let fit = books.ledger().fitting(&pod.uid, &search);
    let unfinished: RefCell<Option<Why>> = RefCell::default();
    let why = |name: &str| {
        let why = fit(name).err();
        if let Some(stopped) = why.as_ref().filter(|why| why.is_unfinished()) {
            *unfinished.borrow_mut() = Some(stopped.clone());
        }
        why
    };
    let holds_nothing = books.ledger().holds_nothing_for(pod.uid.as_str());
    let answer = if holds_nothing {
        let (verdicts, reasons) = books.verdicts(ask, candidates.names(), why);
        Answer::judged(candidates, verdicts, reasons)
    } else {
        Answer::of(candidates, why)
    };
    // The scheduler tries again soon, and the verdicts reached so far are kept.
    if let Some(unfinished) = unfinished.take().filter(|_| answer.refuses_all()) {
        let reason = format!("{unfinished}; the next attempt continues where this one stopped");
        return Answer::error(candidates, &reason, Refusal::Undecided);
    }
    if holds_nothing {
        return answer;
    }
    // The nodes are not the reason if a pod is bound or being bound. After an error the scheduler tries it
    // again soon; after a refusal by every node the pod would wait for some event in the cluster.
    let held = books.ledger().booking(pod.uid.as_str()).is_some();
    if held && candidates.len() > 0 && answer.refused() == candidates.len() {
        answer.into_error()
    } else {
        answer
    }
}

/// The node that packing prefers, if the ledger agrees that it fits.
fn best<'s>(
    books: &'s Books,
    pod: &PodFacts,
    candidates: &Candidates<'_>,
    steps: &Steps,
) -> Option<&'s str> {
    let ask = pod.ask.as_ref().ok()?.as_ref();
    if let Some(claimed) = books.claimed_node(pod, candidates.membership(), steps) {
        return Some(claimed);
    }
    let packing = books.packing();
    // A pod that needs no card is left to the scheduler's own scores, unless every candidate has cards.
    if ask.is_none() && candidates.names().any(|name| !packing.has_cards(name)) {
        return None;
    }
    let preferred = books.nodes().best(ask, pod.host, candidates.membership())?;
    if let Some(ask) = ask {
        let search = books.ledger().search(ask, steps);
        books.ledger().fit(preferred, &pod.uid, &search).ok()?;
    }
    Some(preferred)
}

/// No answer can be given now; the scheduler tries again soon.
pub(super) fn not_ready<'a>(candidates: &'a Candidates<'a>, reason: &str) -> Answer<'a> {
    Answer::error(candidates, &reason, Refusal::NotReady)
}
